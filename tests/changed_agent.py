"""A champion that was tuned for one agent, and that agent before and after it changed. No MLflow here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from judges.models.connect import open_lm
from judges.program import JudgeSuite, Knobs, seed_suite
from judges.simulated_lm.alarms import THEMES
from judges.simulated_lm.failures import FAILURES
from labeled_traces.dataset import Dataset
from labeled_traces.simulated import FaultRates, rate, simulate
from labeled_traces.simulated.faults import NO_FAULTS
from labeled_traces.stable_split import stable_split
from pipeline.config import validated
from pipeline.evaluate import EvaluateSettings, evaluate
from pipeline.export.reference import Reference
from pipeline.matching import build_matcher
from pipeline.metrics.suite import suite_metrics
from pipeline.metrics.table import match_judgments
from pipeline.recalibration.config import RecalibrationConfig
from pipeline.recalibration.decide import Decided, Work, decide
from pipeline.recalibration.labels import PassLabels

NOTES = (
    "A planner writes a numbered plan first. An executor carries it out step by step. The cause of a wrong step can "
    "lie in the plan already. The final answer answers from the recorded values."
)
SMALL_SEARCH: Mapping[str, Any] = {"settings": {"max_calls": 900, "max_iterations": 6}}


@dataclass(frozen=True)
class ChangedAgent:
    """`run`: one pass over newly labelled runs of the agent, in a folder of its own. `reference_seed` draws the runs
    that the champion was promoted with."""

    folder: Path
    config: RecalibrationConfig
    reference_seed: int = 0

    DIMENSIONS: ClassVar = ("plan_quality", "tool_calling")
    BEFORE: ClassVar = replace(NO_FAULTS, wrong_argument=0.2, repeated_call=0.05)
    """It planned well and called badly."""
    AFTER: ClassVar = replace(NO_FAULTS, bad_plan=0.5, repeated_call=0.05)
    """It calls well and plans badly."""

    @classmethod
    def settings(cls, **values: Any) -> RecalibrationConfig:
        """A pass with a small search."""
        given = {"mlflow": {"uri": "none", "experiment": "none"}, "search": SMALL_SEARCH, "validation": {"repeats": 2}}
        return validated(RecalibrationConfig, {**given, **values}, "test")

    @classmethod
    def champion(cls) -> JudgeSuite:
        """Made by hand, as a search leaves it on the agent of before: it knows wrong calls, not bad plans."""
        suite = seed_suite(Knobs(layout="mlflow"), cls.DIMENSIONS)
        calls, plans = suite.programs["tool_calling"], suite.programs["plan_quality"]
        clauses = {name: "\n".join(theme.clause for theme in THEMES[name]) for name in suite.programs}
        rubric = "\n".join([calls.rubric.rstrip(), FAILURES["wrong_argument"].bullet, clauses["tool_calling"]])
        suite = suite.with_program(calls.with_parts({"rubric": rubric, "architecture_notes": NOTES}, "test"))
        rubric = "\n".join([plans.rubric.rstrip(), clauses["plan_quality"]])
        return suite.with_program(plans.with_parts({"rubric": rubric}, "test"))

    @classmethod
    def rows(cls, n: int, seed: int, rates: FaultRates) -> Dataset:
        """Labelled runs, with labels of the judged dimensions alone."""
        return Dataset(
            replace(
                row,
                errors=tuple(error for error in row.errors if set(error.dimensions) & set(cls.DIMENSIONS)),
                scores=tuple(score for score in row.scores if score.dimension in cls.DIMENSIONS),
            )
            for row in rate(simulate(n, seed, rates), seed)
        )

    def run(self, seed: int, rates: FaultRates, n: int = 200) -> Decided:
        dataset = self.rows(n, seed, rates)
        manifest = stable_split(dataset, self.config.seed, self.config.labels.fractions)
        known = reference(self.reference_seed)
        folder = self.folder / f"{self.reference_seed}-{seed}"
        labels = PassLabels(dataset, manifest, frozenset(dataset.ids))
        return decide(Work(self.config, self.champion(), known, labels, folder), lambda _: None)


@cache
def reference(seed: int = 0) -> Reference:
    """How good the champion was on other runs of the agent of before."""
    dataset = list(ChangedAgent.rows(200, 1000 + seed, ChangedAgent.BEFORE))
    with TemporaryDirectory() as folder, open_lm(Path(folder) / "ledger.sqlite", "test") as lm:
        judgments = evaluate(ChangedAgent.champion(), dataset, lm, EvaluateSettings(repeats=2))
    matcher = build_matcher("span", dataset)
    return Reference.of(matcher.name, suite_metrics(match_judgments(dataset, judgments, matcher)))
