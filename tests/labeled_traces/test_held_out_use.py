from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.held_out_use import HeldOutUse, append_use, is_same, names_of, place_of, read_uses
from labeled_traces.trace import JSON, Span, Trace, TraceError


def row(trace_id: str, text: str, **fields: JSON) -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", inputs=text),)), **fields)


def use(*traces: str, time: str = "2026-01-01") -> HeldOutUse:
    return HeldOutUse("proof", "model", {"plan_quality": "p"}, traces, "readings", time=time)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "uses.jsonl"
    assert read_uses(path) == []
    uses = [use("a", "b"), HeldOutUse("other", "model", {}, (), "")]
    for one in uses:
        append_use(path, one)
    assert read_uses(path) == uses
    assert uses[0].id != uses[1].id


@pytest.mark.parametrize("line", ["x", "1", "{}", '{"data": "a", "programs": {}, "model": "m", "time": "t"}'])
def test_a_line_that_is_no_use(tmp_path: Path, line: str) -> None:
    path = tmp_path / "uses.jsonl"
    append_use(path, use("a"))
    with path.open("a") as file:
        file.write(f"\n{line}\n")
    with pytest.raises(TraceError, match=r"uses\.jsonl, line 3"):
        read_uses(path)


WRONG: list[JSON] = [{"time": 1}, {"traces": [1]}, {"traces": None}, {"more": 1}, {"proof": None}, {"readings": 1}]


@pytest.mark.parametrize("change", WRONG)
def test_a_field_that_is_no_use(tmp_path: Path, change: dict[str, JSON]) -> None:
    path = tmp_path / "uses.jsonl"
    path.write_text(json.dumps({**asdict(use("a")), **change}))
    with pytest.raises(TraceError, match="is no use of a testset as this program records it"):
        read_uses(path)


def test_a_trace_is_known_by_its_content_and_by_its_id() -> None:
    """Who edits a name in every trace, or gives every trace another id, has no new testset."""
    assert names_of([row("t", "x"), row("u", "y")]) == names_of([row("u", " y ", group="g"), row("t", "x")])
    known = set(names_of([row("t", "x")]))
    shared = [len(known & set(names_of([other]))) for other in (row("u", "x"), row("t", "x."), row("u", "x."))]
    assert shared == [1, 1, 0]


def test_the_same_proof_from_the_same_readings_is_the_same_use() -> None:
    read = use("a")
    assert is_same(replace(read, id="another", time="2"), read)
    others = [replace(read, readings="2"), replace(read, readings=""), replace(read, proof="other")]
    assert [is_same(other, read) for other in others] == [False] * 3
    assert not is_same(read, replace(read, readings="")), "none are not all"


def test_uses_count_that_share_a_trace() -> None:
    first, other, second = use("a", "b", time="1"), use("c", time="2"), use("b", "d", time="3")
    third = use("a", "b", "c", time="4")
    every = [third, second, first, other, first]
    assert [place_of(one, every) for one in (first, other, second, third)] == [1, 1, 2, 4]
    assert place_of(replace(first, id="new", time="5"), every) == 4
    assert place_of(first, []) == 1
