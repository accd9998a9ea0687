"""One run in two files: the same, but for how exact a format writes its times."""

from __future__ import annotations

from dataclasses import replace

from labeled_traces.trace import Trace, TraceError

_NO_TIME = 2e-6
"""Seconds: some formats cut times at, or round them to, a microsecond."""


class TwiceError(TraceError):
    """Two rows of one id that are not the same."""

    @classmethod
    def of(cls, said: str, labels: int) -> TwiceError:
        """`said`: which two, and where. `labels`: how many are left out with the second."""
        lost = f" (with the {labels} label{'s' if labels > 1 else ''} there)" if labels else ""
        return cls(f"{said}{lost}: ids must differ")


def timed_as(first: Trace, other: Trace) -> Trace:
    """The other trace with the times of the first where a format has rounded them."""

    def near(time: float | None, known: float | None) -> float | None:
        return known if time is not None and known is not None and abs(time - known) < _NO_TIME else time

    pairs = [(span, first.by_id.get(span.span_id, span)) for span in other.spans]
    spans = (replace(span, start=near(span.start, one.start), end=near(span.end, one.end)) for span, one in pairs)
    return replace(other, spans=tuple(spans))
