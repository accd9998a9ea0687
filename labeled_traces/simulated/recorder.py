"""Records the spans of one simulated run: ids from the seed and the position, a clock of its own."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, replace

from labeled_traces.simulated.tools import ToolResult
from labeled_traces.trace import JSON, Span, SpanKind, Trace

_EPOCH = 1_735_689_600.0
_SECONDS_BETWEEN_RUNS = 300.0


def message(role: str, content: str, call: tuple[str, JSON] | None = None) -> dict[str, JSON]:
    """A chat message; `call` is (tool, arguments)."""
    plain = {"role": role, "content": content}
    return {**plain, "tool_calls": [{"name": call[0], "arguments": call[1]}]} if call else plain


@dataclass
class Recorder:
    """Spans are begun in order, and ended when their output is known; the random clock never runs backwards."""

    seed: int
    number: int
    rng: random.Random

    def __post_init__(self) -> None:
        self._clock = _EPOCH + self.number * _SECONDS_BETWEEN_RUNS
        self._spans: dict[str, Span] = {}

    def begin(self, kind: SpanKind, name: str, parent_id: str | None, inputs: JSON) -> str:
        """Returns the span's id."""
        position = f"{self.seed}:{self.number}:{len(self._spans)}"
        span_id = hashlib.blake2b(position.encode(), digest_size=8).hexdigest()
        self._spans[span_id] = Span(span_id, parent_id, name, kind, self._now(), inputs=inputs)
        return span_id

    def end(self, span_id: str, outputs: JSON, error: str | None = None) -> None:
        status = "ERROR" if error else "OK"
        self._spans[span_id] = replace(
            self._spans[span_id], end=self._now(), outputs=outputs, status=status, error=error
        )

    def llm(self, name: str, parent_id: str, system: str, user: str, tools: JSON = None) -> str:
        inputs: dict[str, JSON] = {"messages": [message("system", system), message("user", user)]}
        return self.begin(SpanKind.LLM, name, parent_id, {**inputs, "tools": tools} if tools else inputs)

    def tool(self, parent_id: str, name: str, arguments: JSON, result: ToolResult) -> None:
        self.end(self.begin(SpanKind.TOOL, name, parent_id, arguments), result.output, result.error)

    def trace(self) -> Trace:
        return Trace(f"sim-{self.seed}-{self.number:04d}", tuple(self._spans.values()))

    def _now(self) -> float:
        self._clock = round(self._clock + self.rng.uniform(0.05, 2.5), 3)
        return self._clock
