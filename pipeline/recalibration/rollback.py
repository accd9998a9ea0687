"""The way back: the champions that the last promotion replaced."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.config import PipelineError
from pipeline.export.exported import versions_of
from pipeline.export.records import RECALIBRATION, ROLLBACK, Ending, Record
from pipeline.export.registry import GoneError
from pipeline.lock import locked
from pipeline.prepare import Say
from pipeline.recalibration.config import RecalibrationConfig
from pipeline.recalibration.home import Home, Passed, was_read


def rollback(config: RecalibrationConfig, say: Say) -> Passed:
    """The champions that the last promotion replaced come back. Called again, it goes one promotion further back.

    A pass that was stopped is ended first, so that it does not undo this: what it had promoted was the last promotion.
    If it had promoted nothing, it is ended, and no more: the champions stay.

    Raises:
        PipelineError: there is no earlier champion, or it was deleted; or as `recalibrate`.
    """
    with locked(config.state):
        home = Home(config.mlflow)
        stopped = next((record for record in home.records.all() if record.open and record.kind == ROLLBACK), None)
        if stopped is not None:
            return end_rollback(home, stopped)
        promoted: dict[str, bool] = {}
        for record in home.records.all():
            if record.open and record.kind == RECALIBRATION:
                say(f"a pass that was stopped is ended without a decision: {record.run_id}")
                promoted[record.run_id] = home.overrule(record, read=was_read(config.state / record.run_id))
        if promoted and not any(promoted.values()):
            reason = (
                "a pass that was stopped is ended without a decision; it had promoted nothing, so the champions stay: "
                "the next rollback goes one promotion back"
            )
            return Passed("overruled", (reason,), home.registry.champions(), run_id=list(promoted)[-1])
        leaving = _came_last(home, home.records.all())
        if leaving:
            return end_rollback(home, home.records.begin(ROLLBACK, leaving))
        raise PipelineError(
            f"experiment {config.mlflow.home!r}: no champion stands there that has replaced another, so there is "
            "nothing to go back to; the champions are as they were"
        )


def end_rollback(home: Home, record: Record) -> Passed:
    """What is left to do of a rollback that began.

    Raises:
        GoneError: it cannot be done, now or later; that is on record, and the champions are as they were.
    """
    try:
        back = home.registry.rollback(home.judges(record.before).values())
    except GoneError as error:
        document = {"decision": "not possible", "reasons": [str(error)], "champions": home.versions()}
        home.records.end(record, Ending("not possible", home.versions(), document=document))
        raise
    champions = home.registry.champions()
    after = versions_of(champions)
    document = {"left": dict(record.before), "champions": after}
    home.records.end(record, Ending("rolled back", after, document=document))
    lines = tuple(f"{name}: version {record.before[name]} gave way to {judge.version}" for name, judge in back.items())
    if not back:
        lines = (
            "a rollback that was stopped is ended: its judges are no champions any more, so nothing is changed now",
        )
    return Passed("rolled back", lines, champions, run_id=record.run_id, document=document)


def _came_last(home: Home, past: Sequence[Record]) -> dict[str, int]:
    """Dimension -> version of the champions that came with the newest promotion and replaced others."""
    decisions = [record for record in past if not record.open]
    versions = versions_of(home.registry.replacements())
    came = {name: _came(name, version, decisions) for name, version in versions.items()}
    return {name: version for name, version in versions.items() if came[name] == max(came.values())}


def _came(name: str, version: int, decisions: Sequence[Record]) -> float:
    """When a champion came: the position of the decision that made it one; before the first that found it there, or
    after all of them, where somebody else did. A rollback makes none: who comes back came when it came first."""
    stood: list[tuple[int, float]] = []

    def found(present: int | None, when: float, *, back: bool = False) -> None:
        if back and present in dict(stood):
            while stood[-1][0] != present:
                stood.pop()
        elif present is not None and (not stood or stood[-1][0] != present):
            stood.append((present, when))

    for i, one in enumerate(decisions):
        found(one.before.get(name), i - 0.5)
        found(one.after.get(name), i, back=one.kind == ROLLBACK and name in one.before)
    found(version, len(decisions) - 0.5)
    return stood[-1][1]
