from __future__ import annotations

from labeled_traces.dataset import LabeledTrace
from labeled_traces.groups import connected
from labeled_traces.trace import Span, Trace


def row(trace_id: str, content: str, group: str = "") -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("s", None, "agent", inputs=content),)), group=group)


def test_group_and_content_join_over_any_number_of_traces() -> None:
    rows = [row("a", "one", "x"), row("b", "two", "x"), row("c", "two", "y"), row("d", "three"), row("e", "Three")]
    names = connected(rows)
    assert names[0] == names[1] == names[2]
    assert len({names[0], names[3], names[4]}) == 3


def test_a_trace_that_hangs_together_with_none_is_alone() -> None:
    assert connected([row("a", "one"), row("b", "two")]) == ("a", "b")
    assert connected([]) == ()
