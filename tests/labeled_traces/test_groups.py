from __future__ import annotations

from labeled_traces.dataset import LabeledTrace
from labeled_traces.groups import connected, crowded
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


def test_a_group_with_more_than_a_fifth_of_all_traces_is_named() -> None:
    rows = [row(f"t{n}", f"content {n}", "goal hi" if n < 3 else "") for n in range(15)]
    assert crowded(rows) is None
    assert crowded(rows[:2]) is None
    assert crowded([]) is None
    said = crowded(rows[:14])
    assert said is not None
    for part in ("3 of 14 traces", "'goal hi'", "'t0'", "`group`"):
        assert part in said
    assert "of one content" in (crowded([row(f"t{n}", "same") for n in range(3)]) or "")
