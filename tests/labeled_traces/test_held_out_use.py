from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.held_out_use import HeldOutUse, append_use, contents, is_same, place_of, read_uses
from labeled_traces.trace import JSON, Span, Trace, TraceError


def row(trace_id: str, text: str, **fields: JSON) -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", inputs=text),)), **fields)


def use(*traces: str, time: str = "2026-01-01") -> HeldOutUse:
    return HeldOutUse("proof", "model", {"plan_quality": "p"}, traces, time=time)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "uses.jsonl"
    assert read_uses(path) == []
    uses = [use("a", "b"), HeldOutUse("other", "model", {}, ())]
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


def test_a_trace_is_known_by_its_content() -> None:
    assert contents([row("t", "x"), row("u", "y")]) == contents([row("v", " y ", group="g"), row("w", "x")])
    assert len(contents([row("t", "x"), row("u", "x")])) == 1
    assert contents([row("t", "z")]) != contents([row("t", "x")])


def test_the_same_proof_from_the_same_readings_is_the_same_use() -> None:
    first = use("a")
    read = replace(first, readings="1")
    assert [is_same(read, first), is_same(read, read), is_same(first, first)] == [True] * 3
    others = [replace(read, readings="2"), replace(read, readings=""), replace(read, proof="other")]
    assert [is_same(other, read) for other in others] == [False] * 3


def test_uses_count_that_share_a_trace() -> None:
    first, other, second = use("a", "b", time="1"), use("c", time="2"), use("b", "d", time="3")
    third = use("a", "b", "c", time="4")
    every = [third, second, first, other, first]
    assert [place_of(one, every) for one in (first, other, second, third)] == [1, 1, 2, 4]
    assert place_of(replace(first, id="new", time="5"), every) == 4
    assert place_of(first, []) == 1
