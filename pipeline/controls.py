"""Three judges that need no model. They go through the same code; a metric that one of them wins proves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judges.judgment import Finding, Judgment, Outcome
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import DIMENSIONS, Impact, score_from_impacts
from labeled_traces.trace import Span, text_hash
from pipeline.config import PipelineError
from pipeline.matching import Matcher
from pipeline.metrics.estimate import Estimate
from pipeline.metrics.suite import HIGHER_IS_BETTER
from pipeline.metrics.table import MatchTable, match_judgments

EXPLANATION = "There is a problem at this step."
QUOTE = 2000
"""The longest quote of a span's content, in characters."""


@dataclass(frozen=True)
class ControlInput:
    """The rows to judge, and the development rows from which `guess` learns the base rate."""

    rows: Sequence[LabeledTrace]
    development: Sequence[LabeledTrace]
    repeats: int = 1
    seed: int = 0
    dimensions: tuple[str, ...] = tuple(DIMENSIONS)

    def __iter__(self) -> Iterator[tuple[LabeledTrace, str, int]]:
        """Every row, dimension and repeat."""
        for row in self.rows:
            for dimension in self.dimensions:
                for repeat in range(self.repeats):
                    yield row, dimension, repeat


def flag_all(work: ControlInput) -> list[Judgment]:
    """Reports every span to every dimension, quoting it."""
    quotes = {row.trace_id: [(span.span_id, _quote(span)) for span in row.trace.spans] for row in work.rows}
    return [
        _judgment(
            "flag_all", row, dimension, repeat, [(span, quote, Impact.HIGH) for span, quote in quotes[row.trace_id]]
        )
        for row, dimension, repeat in work
    ]


def silent(work: ControlInput) -> list[Judgment]:
    """Reports nothing."""
    return [_judgment("silent", row, dimension, repeat, []) for row, dimension, repeat in work]


def guess(work: ControlInput) -> list[Judgment]:
    """Reports at the base rate: as many errors as a random development trace has, at random spans, with the impacts
    that the development labels have.

    Raises:
        PipelineError: there are no development rows.
    """
    if not work.development:
        raise PipelineError("the control `guess` needs development rows: it learns the base rate from them")
    impacts = {
        name: [[error.impact for error in row.errors_of(name)] for row in work.development] for name in DIMENSIONS
    }
    judgments = []
    for row, dimension, repeat in work:
        key = [work.seed, repeat, list(DIMENSIONS).index(dimension), int(text_hash(row.trace_id)[:12], 16)]
        generator = np.random.default_rng(key)
        drawn = impacts[dimension][generator.integers(len(work.development))]
        spans = generator.permutation(len(row.trace.spans))[: len(drawn)]
        reported = [row.trace.spans[place] for place in spans]
        found = [(span.span_id, _quote(span), impact) for span, impact in zip(reported, drawn, strict=False)]
        judgments.append(_judgment("guess", row, dimension, repeat, found))
    return judgments


CONTROLS: dict[str, Callable[[ControlInput], list[Judgment]]] = {
    "flag_all": flag_all,
    "silent": silent,
    "guess": guess,
}


def control_tables(work: ControlInput, matcher: Matcher) -> dict[str, MatchTable]:
    """The table of each control on the same rows."""
    return {name: match_judgments(work.rows, control(work), matcher) for name, control in CONTROLS.items()}


def beaten_by(metrics: Mapping[str, Estimate], controls: Mapping[str, Mapping[str, Estimate]]) -> dict[str, list[str]]:
    """The metrics that controls win, each with their names: better than ours, or defined where ours is not."""
    beaten: dict[str, list[str]] = {}
    for metric, higher in HIGHER_IS_BETTER.items():
        ours = metrics[metric].value if metric in metrics else None
        for name, values in controls.items():
            theirs = values[metric].value if metric in values else None
            if theirs is not None and (ours is None or (theirs > ours if higher else theirs < ours)):
                beaten.setdefault(metric, []).append(name)
    return beaten


def _judgment(
    control: str, row: LabeledTrace, dimension: str, repeat: int, found: Sequence[tuple[str, str, Impact]]
) -> Judgment:
    return Judgment(
        trace_id=row.trace_id,
        dimension=dimension,
        program=f"control-{control}",
        repeat=repeat,
        outcome=Outcome.SCORED,
        score=score_from_impacts(impact for _, _, impact in found),
        findings=tuple(
            Finding(dimension, (span_id,), EXPLANATION, quote, severity=impact) for span_id, quote, impact in found
        ),
        cost=0.0,
    )


def _quote(span: Span) -> str:
    contents = [content for content in (span.inputs, span.outputs, span.error) if content is not None]
    texts = [content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) for content in contents]
    return "\n".join(texts)[:QUOTE]
