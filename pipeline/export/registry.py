"""The judges of one MLflow experiment: the champion, the challenger, and how one takes the place of the other.

A dimension has one prompt, `<prefix><dimension>`; every exported judge is a version of it, whose tags hold the whole
program. The alias `champion` points at the version in production, `challenger` at the one that wants its place. The
scorer of the same name is the champion, since MLflow runs the newest version of a scorer as soon as it is registered;
a challenger's scorer is called `<prefix><dimension>_challenger`.

Every method can be stopped anywhere and called again: the alias moves last, so what it points at is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from judges.decision import DecisionRule
from judges.judgment import HOLISTIC
from judges.mlflow_layout import instructions
from judges.program import MLFLOW, JudgeProgram, JudgeSuite
from labeled_traces.label import DIMENSIONS
from pipeline.config import PipelineError
from pipeline.export.exported import (
    NO_VERDICT,
    SCORER,
    SCORER_VERSION,
    Exported,
    Provenance,
    judge_tags,
    read_version,
)
from pipeline.export.scorer import MAX_LENGTH, build_scorer, check_request
from pipeline.export.store import Store
from pipeline.validate import Verdict

CHAMPION, CHALLENGER = "champion", "challenger"
PREFIX = "gpa_"
_ROLLED_BACK = "rolled_back"
"""The tag of a version that was champion and was taken back."""


def _silent(_: str) -> None:
    """Tells nobody how far it is."""


class UnfitError(PipelineError):
    """A judge that MLflow cannot hold or run, whenever it is asked."""


class GoneError(PipelineError):
    """A judge that a record names, or that is to be champion again, is not there."""


class Registry:
    """Champions and challengers of one experiment.

    Judges of another experiment under the same prefix are refused, since prompts belong to the whole server: give each
    experiment a prefix of its own.
    """

    def __init__(self, uri: str, experiment: str, prefix: str = PREFIX, *, create: bool = False) -> None:
        """Connects. `create`: make the experiment if there is none.

        Raises:
            PipelineError: no MLflow there, or no such experiment.
        """
        self._store = Store(uri, experiment, create=create)
        self.uri = uri
        self.experiment = experiment
        self.prefix = prefix

    @property
    def experiment_id(self) -> str:
        return self._store.experiment_id

    def champions(self) -> dict[str, Exported]:
        """Dimension -> the judge in production, in the order of the dimensions; empty where there is none yet.

        Raises:
            PipelineError: MLflow refuses, or a version holds no judge that can be read.
        """
        return self._aliased(CHAMPION)

    def challengers(self) -> dict[str, Exported]:
        """Dimension -> the judge that wants the champion's place. Raises as `champions`."""
        return self._aliased(CHALLENGER)

    def versions(self, dimension: str) -> list[Exported]:
        """Everything that was exported for a dimension, newest first. Raises as `champions`."""
        prompt = self._prompt(dimension)
        return [self._read(prompt, version) for version in self._store.versions(prompt)]

    def register(
        self, suite: JudgeSuite, provenance: Provenance, say: Callable[[str], None] = _silent
    ) -> dict[str, Exported]:
        """Makes the suite's judges the challengers: a prompt version and a scorer version each.

        A judge that is there already (same program, same rule) gets no new version; its provenance is brought up to
        date, but one that is or was champion keeps that of its promotion unless the verdict is PASS. A champion stays
        what it is, and is not made a challenger of itself. Programs are exported in the layout `mlflow`, whatever
        theirs is.

        Raises:
            UnfitError: a judge that MLflow cannot hold (too long, a model that it cannot name); nothing is written.
        """
        try:
            planned = [self._plan(program, suite.rule, provenance) for program in suite.programs.values()]
        except PipelineError as error:
            raise UnfitError(str(error)) from error
        known = {plan.prompt: self.versions(plan.program.dimension) for plan in planned}
        done = {}
        for plan in planned:
            judge = done[plan.program.dimension] = self._register(plan, known[plan.prompt])
            say(f"{judge.uri} is registered")
        if provenance.run_id:
            versions = [self._store.version(judge.prompt, judge.version) for judge in done.values()]
            self._store.link_run(provenance.run_id, versions)
        return done

    def promote(self, judges: Iterable[Exported], say: Callable[[str], None] = _silent) -> dict[str, Exported]:
        """Makes these registered judges the champions of their dimensions; the others stay.

        Returns them as they are now, with the live scorer's version. The champion of now is kept for `rollback`;
        promoting it again changes nothing.

        Raises:
            PipelineError: MLflow refuses.
        """
        done = {}
        for judge in judges:
            done[judge.dimension] = self._promote(judge)
            say(f"{judge.uri} is champion")
        return done

    def rollback(self, champions: Iterable[Exported] | None = None) -> dict[str, Exported]:
        """These champions give their place back to the ones before them; None: all present ones that replaced another.

        Returns the champions that came back. A judge that is no champion any more is left alone, so a rollback that was
        stopped is ended by the same call with the same judges (with None it would go a step too far).

        Raises:
            GoneError: a judge named here never replaced another, or that one was deleted; nothing is written.
        """
        present = {judge.dimension: judge for judge in self.champions().values()}
        named = present.values() if champions is None else champions
        leaving = [judge for judge in named if present.get(judge.dimension, judge).version == judge.version]
        pasts = {judge.dimension: self._past(judge.prompt) for judge in leaving}
        first = [judge.prompt for judge in leaving if len(pasts[judge.dimension]) < 2]
        if first and champions is not None:
            raise GoneError(f"{', '.join(first)}: there is no earlier champion to go back to")
        leaving = [judge for judge in leaving if judge.prompt not in first]
        earlier = [self._numbered(judge.prompt, pasts[judge.dimension][-2]) for judge in leaving]
        for judge in leaving:
            self._store.set_tags(judge.prompt, judge.version, judge.tags, {_ROLLED_BACK: "true"})
        return {judge.dimension: self._go_live(judge, pasts[judge.dimension][:-1]) for judge in earlier}

    def forget(self, judge: Exported, since: int) -> None:
        """No rollback comes back to this judge, where another one has replaced it. `since`: the version that was
        champion before it; what was before that stays."""
        past = self._past(judge.prompt)
        start = len(past) - past[::-1].index(since) if since in past else 0
        left = [number for number in past[start:-1] if number != judge.version]
        kept = [number for number, _ in groupby([*past[:start], *left, *past[-1:]])]
        if kept != past:
            self._store.set_history(judge.prompt, kept)

    def replacements(self) -> dict[str, Exported]:
        """The champions that replaced another: those that can be rolled back. Raises as `champions`."""
        return {name: judge for name, judge in self.champions().items() if len(self._past(judge.prompt)) > 1}

    def was_replaced(self, judge: Exported) -> bool:
        """Whether it was champion and is not any more, because of a promotion or a rollback. Raises as `champions`."""
        past = self._past(judge.prompt)
        return past[-1:] not in ([], [judge.version]) and _was_champion(judge, past)

    def _prompt(self, dimension: str) -> str:
        return f"{self.prefix}{dimension}"

    def _aliased(self, alias: str) -> dict[str, Exported]:
        found = {name: self._store.version(self._prompt(name), alias) for name in _JUDGES}
        return {name: self._read(self._prompt(name), version) for name, version in found.items() if version is not None}

    def _numbered(self, prompt: str, number: int) -> Exported:
        version = self._store.version(prompt, number)
        if version is None:
            raise GoneError(f"version {number} of the prompt {prompt} was deleted: it cannot be champion again")
        return self._read(prompt, version)

    def _read(self, prompt: str, version: Any) -> Exported:
        judge = read_version(prompt, version)
        if judge.tags["experiment_id"] != self.experiment_id:
            owner = self._store.experiment_name(judge.tags["experiment_id"])
            raise PipelineError(
                f"{judge.uri} belongs to the judges of experiment {owner!r}, not of {self.experiment!r}: accepted is "
                f"that one (score: --judges {owner}; a re-calibration: mlflow.judges), or another --name-prefix for "
                "each experiment"
            )
        return judge

    def _plan(self, program: JudgeProgram, rule: DecisionRule, provenance: Provenance) -> _Plan:
        """Everything that can fail without MLflow's server fails here."""
        program = program.with_knobs(layout=MLFLOW)
        prompt = self._prompt(program.dimension)
        scorer = build_scorer(f"{prompt}_{CHALLENGER}", program, instructions(program))
        tags = judge_tags(program, rule, self.experiment_id)
        origin = provenance.tags(program) | {"request_checked_with": check_request(scorer, program)}
        for name, value in (tags | origin).items():
            if len(value) > MAX_LENGTH:
                raise PipelineError(
                    f"{prompt}: its {name} has {len(value)} characters: accepted by MLflow are {MAX_LENGTH}"
                )
        return _Plan(prompt, program, scorer, tags, origin)

    def _register(self, plan: _Plan, known: list[Exported]) -> Exported:
        found = next((judge for judge in known if judge.is_same(plan.tags)), None)
        champion = self._store.version(plan.prompt, CHAMPION)
        origin = {} if found is not None and self._keeps_origin(found, plan.origin["verdict"]) else plan.origin
        if found is not None and champion is not None and int(champion.version) == found.version:
            self._store.set_tags(plan.prompt, found.version, found.tags, origin)
            return self._numbered(plan.prompt, found.version)
        live = {SCORER: plan.scorer.name, SCORER_VERSION: str(self._store.ensure_scorer(plan.scorer))}
        if found is None:
            message = f"{plan.program.dimension} judge {plan.program.hash} of {plan.origin['run']}"
            tags = {**plan.tags, **origin, **live}
            number = int(self._store.create_version(plan.prompt, instructions(plan.program), message, tags).version)
        else:
            number = found.version
            self._store.set_tags(plan.prompt, number, found.tags, {**origin, **live})
        self._store.set_alias(plan.prompt, CHALLENGER, number)
        return self._numbered(plan.prompt, number)

    def _keeps_origin(self, judge: Exported, verdict: str) -> bool:
        """A verdict stays until there is another: a run that has none says nothing against it. What a champion was
        promoted with (its run, its reference) is not changed by a challenger that shares the judge."""
        silent = verdict == NO_VERDICT != judge.verdict
        return silent or (verdict != Verdict.PASS and _was_champion(judge, self._past(judge.prompt)))

    def _promote(self, judge: Exported) -> Exported:
        past = self._past(judge.prompt)
        done = self._go_live(judge, past if past[-1:] == [judge.version] else [*past, judge.version])
        challenger = self._store.version(judge.prompt, CHALLENGER)
        if challenger is not None and int(challenger.version) == judge.version:
            self._store.delete_alias(judge.prompt, CHALLENGER)
        return done

    def _go_live(self, judge: Exported, past: list[int]) -> Exported:
        """`past`: the champions so far, this one last."""
        scorer = build_scorer(judge.prompt, judge.program, judge.template)
        live = {SCORER: judge.prompt, SCORER_VERSION: str(self._store.ensure_scorer(scorer)), _ROLLED_BACK: "false"}
        self._store.set_tags(judge.prompt, judge.version, judge.tags, live)
        forward = len(past) > len(self._past(judge.prompt))
        if forward:
            self._store.set_history(judge.prompt, past)
        self._store.set_alias(judge.prompt, CHAMPION, judge.version)
        if not forward:
            # Only now: `_past` takes no notice of what stands behind the champion.
            self._store.set_history(judge.prompt, past)
        return self._numbered(judge.prompt, judge.version)

    def _past(self, prompt: str) -> list[int]:
        """The champions so far, the present one last. What was noted for an alias that never moved does not count; one
        that somebody moved with MLflow's own tools does."""
        champion = self._store.version(prompt, CHAMPION)
        if champion is None:
            return []
        past, now = self._store.history(prompt), int(champion.version)
        if now not in past:
            return [*past, now]
        while past[-1] != now:
            past.pop()
        return past


def _was_champion(judge: Exported, past: list[int]) -> bool:
    """Or is it. `past`: the champions so far."""
    return judge.version in past or judge.tags.get(_ROLLED_BACK) == "true"


_JUDGES = (*DIMENSIONS, HOLISTIC)


@dataclass(frozen=True)
class _Plan:
    """One judge on its way: `tags` make the version what it is, `origin` may change."""

    prompt: str
    program: JudgeProgram
    scorer: Any
    tags: dict[str, str]
    origin: dict[str, str]
