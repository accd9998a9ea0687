"""The `examples` part: excerpts of train traces beside the finding they call for, written by code, not by a model."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judges.program import JudgeProgram
from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, score_from_impacts
from labeled_traces.trace import JSON, Span, SpanKind, Trace
from pipeline.optimizers.proposals import personal_masked

_STEPS = (SpanKind.LLM, SpanKind.TOOL, SpanKind.RETRIEVER, SpanKind.AGENT)
_MOST_SPANS = 3
_NEW_ERRORS = 2
_CONFIDENCE = 90


@dataclass(frozen=True)
class ExampleBuilder:
    """Makes examples from the trainset alone. `excerpt_tokens` bounds an excerpt: long prompts dilute attention."""

    trainset: Sequence[LabeledTrace]
    excerpt_tokens: int = 220

    def propose(
        self, program: JudgeProgram, missed: Sequence[str], spurious: bool, avoid: Collection[str], draw: random.Random
    ) -> str:
        """The program's examples with new ones in front, at most as many as its knobs show.

        `missed`: label categories of errors that the judge did not see; the two most frequent get an example each. A
        clean example, from a trace that people checked if there is one, is added where the judge saw errors that are
        none. Traces in `avoid` (those that the child will be tried on) give none. Nothing to add: the text as it is.
        """
        old = [line for line in program.examples.splitlines() if line.strip()]
        shown = {json.loads(line).get("trace_id") for line in old}
        rows = [row for row in self.trainset if row.trace_id not in shown and row.trace_id not in avoid]
        new = []
        for category, _ in Counter(missed).most_common(_NEW_ERRORS):
            known = [
                (row, error)
                for row in rows
                for error in row.errors_of(program.dimension)
                if error.category == category and error.span_id is not None
            ]
            if known:
                new.append(self._error_example(*draw.choice(known)))
        clean = [row for row in rows if row.is_clean]
        checked = [row for row in clean if row.clean == "checked"]
        if spurious and clean:
            new.append(self._clean_example(draw.choice(checked or clean)))
        lines = [json.dumps(example, ensure_ascii=False) for example in new] + old
        return "\n".join(lines[: program.knobs.max_examples])

    def catalogue(self, dimension: str) -> list[tuple[str, str]]:
        """One example per trace of the trainset that can give one, as (category of its error, line of `examples`); the
        category of a clean one is empty."""
        found = []
        for row in self.trainset:
            error = next((error for error in row.errors_of(dimension) if error.span_id is not None), None)
            if error is not None:
                found.append((error.category, json.dumps(self._error_example(row, error), ensure_ascii=False)))
            elif row.is_clean:
                found.append(("", json.dumps(self._clean_example(row), ensure_ascii=False)))
        return found

    def _error_example(self, row: LabeledTrace, error: ErrorLabel) -> dict[str, Any]:
        spans = _around(row.trace, error.span_id)
        aliases = {span.span_id: f"S{number}" for number, span in enumerate(spans, 1)}
        finding = {
            "span_ids": [aliases[error.span_id or ""]],
            "explanation": _plain(f"{error.category.replace('_', ' ')}: {error.description}", aliases),
            "evidence": _plain(error.evidence, aliases),
            "severity": str(error.impact),
            "confidence": _CONFIDENCE,
        }
        return self._example(row, spans, aliases, [finding], score_from_impacts([error.impact]))

    def _clean_example(self, row: LabeledTrace) -> dict[str, Any]:
        steps = [span for span in row.trace.walk() if span.kind in _STEPS and span.parent_id is not None]
        spans = (steps or list(row.trace.spans))[-_MOST_SPANS:]
        aliases = {span.span_id: f"S{number}" for number, span in enumerate(spans, 1)}
        return self._example(row, spans, aliases, [], score_from_impacts([]))

    def _example(
        self,
        row: LabeledTrace,
        spans: Sequence[Span],
        aliases: Mapping[str, str],
        findings: list[dict[str, Any]],
        score: int,
    ) -> dict[str, Any]:
        masked = tuple(
            replace(
                span,
                span_id=aliases[span.span_id],
                parent_id=aliases.get(span.parent_id or ""),
                inputs=_latest(span.inputs),
            )
            for span in spans
        )
        excerpt = render(Trace(row.trace_id, masked), self.excerpt_tokens).text
        text = _plain(excerpt.strip(), aliases)
        return {"excerpt": text, "findings": findings, "score": score, "trace_id": row.trace_id}


def _around(trace: Trace, span_id: str | None) -> list[Span]:
    """The labelled span with the steps right above and below it, in trace order; the root only if it is the one."""
    span = trace.by_id[span_id or ""]
    near = [other for other in trace.spans if other.span_id in trace.neighbourhood(span.span_id)]
    steps = [other for other in near if other is not span and other.kind in _STEPS and other.parent_id is not None]
    kept = {span.span_id, *(step.span_id for step in steps[: _MOST_SPANS - 1])}
    return [other for other in near if other.span_id in kept]


def _latest(inputs: JSON) -> JSON:
    """An LLM span's inputs without tool schemas and without all but the last message: an excerpt has little room."""
    if isinstance(inputs, dict) and isinstance(inputs.get("messages"), list):
        return {"messages": inputs["messages"][-1:]}
    return inputs


def _plain(text: str, aliases: Mapping[str, str]) -> str:
    for span_id, alias in aliases.items():
        text = text.replace(span_id, alias) if len(span_id) > len(alias) else text
    return personal_masked(text)
