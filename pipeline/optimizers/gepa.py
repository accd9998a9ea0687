"""Reflective search with the gepa library, one run per dimension.

Source: Agrawal et al., GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning, 2025, arXiv 2507.19457

The library's cache, merge step and run folder are not used: our ledger answers repeated calls and resumes a broken run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from judges.lm import BudgetExhausted
from judges.program import JudgeProgram
from labeled_traces.dataset import LabeledTrace
from labeled_traces.split import Development
from pipeline.config import PipelineError
from pipeline.optimizers.base import NOT_SEARCHED, OptimizationResult, SearchContext
from pipeline.optimizers.batches import Minibatches, Rows
from pipeline.optimizers.examples import ExampleBuilder
from pipeline.optimizers.proposals import ProposalChecks
from pipeline.optimizers.proposer import Proposer
from pipeline.optimizers.scoring import TooFewUsable
from pipeline.optimizers.search import Search, best_first, shown_traces
from pipeline.optimizers.selection import Selection
from pipeline.optimizers.settings import GepaSettings

if TYPE_CHECKING:
    from pipeline.optimizers.adapter import JudgeAdapter

__all__ = ["GepaOptimizer", "GepaSettings"]

FEW_PROPOSALS = 3
"""A budget for fewer proposals than this is warned of: such a search has not converged."""


class GepaOptimizer:
    """The `gepa` optimiser."""

    name = "gepa"

    def __init__(self, settings: GepaSettings | None = None) -> None:
        self.settings = settings or GepaSettings()

    def optimize(self, program: JudgeProgram, development: Development, context: SearchContext) -> OptimizationResult:
        """As `Optimizer.optimize`.

        Raises:
            PipelineError: the gepa library is not installed, or the program is the holistic one.
        """
        return _Search(self.settings, program, development, context).run()

    def hindrance(self, program: JudgeProgram, development: Development, context: SearchContext) -> str | None:
        """As `Search.hindrance`."""
        return _Search(self.settings, program, development, context).hindrance()


class _Search(Search):
    """One search: what it may spend, and how gepa runs it."""

    name = GepaOptimizer.name
    unit = "proposal"

    def __init__(
        self, settings: GepaSettings, program: JudgeProgram, development: Development, context: SearchContext
    ) -> None:
        super().__init__(settings, program, development, context)
        self.settings = settings
        self.versions = {"gepa": _gepa_version()}
        self.batch = min(settings.minibatch, len(self.train))

    def run(self) -> OptimizationResult:
        if (hindrance := self.hindrance()) is not None:
            return self.result(self.kept(hindrance), NOT_SEARCHED)
        adapter, stop_reason = self._searched()
        if adapter.broken is not None and not isinstance(adapter.broken, TooFewUsable):
            raise adapter.broken
        ended = adapter.stop is not None
        try:
            selection = self.cut_short(adapter.trials) if ended else self._selected(adapter)
        except (BudgetExhausted, TooFewUsable) as stop:
            adapter.stop, stop_reason = stop, str(stop)
            selection = self.cut_short(adapter.trials)
        exhausted = isinstance(adapter.stop, BudgetExhausted)
        return self.result(selection, stop_reason, adapter.trials, exhausted=exhausted, warnings=self._warnings())

    def _searched(self) -> tuple[JudgeAdapter, str]:
        """Runs gepa. The adapter holds the trials, and in `stop` what broke the search, if anything did."""
        import gepa

        from pipeline.optimizers.adapter import JudgeAdapter, Tools

        settings, dimension = self.settings, self.program.dimension
        checks = ProposalChecks(self.program, self.development, self.context.seal)
        proposer = Proposer(self.reflector, checks, ExampleBuilder(list(self.development.trainset)))
        origin = f"gepa {self.versions['gepa']}"
        adapter = JudgeAdapter(Tools(self.program, self.scorer, proposer, settings.repeats, origin, settings.alpha))
        ended: list[str] = []
        try:
            gepa.optimize(
                seed_candidate=self.program.parts,
                trainset=Rows(self.train),
                valset=Rows(self.val),
                adapter=adapter,
                batch_sampler=Minibatches(self.train, dimension, self.batch, self.context.seed),
                module_selector=settings.parts,
                acceptance_criterion=adapter,
                frontier_type="hybrid",
                skip_perfect_score=False,
                stop_callbacks=[self._stopper(adapter, ended)],
                callbacks=[adapter],
                logger=_Silence(),
                track_best_outputs=False,
                seed=self.context.seed,
                raise_on_exception=True,
            )
        except (BudgetExhausted, TooFewUsable) as stop:
            adapter.stop = stop
        return adapter, str(adapter.stop) if adapter.stop is not None else ended[-1]

    def _stopper(self, adapter: JudgeAdapter, ended: list[str]) -> Callable[[Any], bool]:
        """gepa asks before every iteration; the reason for a yes is appended to `ended`."""

        def stop(state: Any) -> bool:
            settings, proposals = self.settings, state.i + 1
            if adapter.stop is not None:
                ended.append(str(adapter.stop))
            elif adapter.failures >= settings.max_failures:
                ended.append(f"{adapter.failures} proposals in a row failed: {adapter.last.why}")
            elif proposals >= settings.max_iterations:
                ended.append(f"{proposals} proposals were made (max_iterations)")
            elif self.scorer.calls + self._iteration_calls + self._selection_calls > settings.max_calls:
                ended.append(f"the next proposal might pass {settings.max_calls} judge calls (max_calls)")
            return bool(ended)

        return stop

    # -- what it costs -------------------------------------------------------------------------------------------

    @property
    def _val_calls(self) -> int:
        return len(self.val) * self.settings.repeats

    @property
    def _iteration_calls(self) -> int:
        """The most that one proposal can cost: parent and child on a minibatch, then the child on val."""
        return 2 * self.batch * self.settings.repeats + self._val_calls

    @property
    def _selection_calls(self) -> int:
        rows = len(self.val) + (len(self.train) if self.settings.select_on_train else 0)
        return self.settings.selection.calls(rows)

    def floor(self, count: int) -> int:
        return self._val_calls + self._selection_calls + count * self._iteration_calls

    def _warnings(self) -> tuple[str, ...]:
        if self.affordable >= FEW_PROPOSALS:
            return ()
        return (
            f"max_calls {self.settings.max_calls} pays for {self.affordable} proposals, so the search has not "
            f"converged: {FEW_PROPOSALS} proposals need at least {self.floor(FEW_PROPOSALS)} judge calls",
        )

    # -- how it ends ---------------------------------------------------------------------------------------------

    def _selected(self, adapter: JudgeAdapter) -> Selection:
        candidates = best_first(adapter.trials)
        rule = self.settings.selection
        rows: Sequence[LabeledTrace] = self.val
        if self.settings.select_on_train:
            shown = shown_traces(*candidates[: rule.finalists])
            rows = [*self.val, *(row for row in self.train if row.trace_id not in shown)]
        return rule.select(self.program, candidates, rows, self.scorer)


class _Silence:
    """gepa prints its progress to stdout, which belongs to `--json`."""

    def log(self, message: str) -> None: ...


def _gepa_version() -> str:
    """The installed library's version.

    Raises:
        PipelineError: it is not installed; nothing else runs in its place.
    """
    try:
        import gepa  # noqa: F401

        return version("gepa")
    except ImportError as error:
        raise PipelineError(f"optimizer gepa needs the gepa library ({error}): pip install 'gepa>=0.1.4'") from error
