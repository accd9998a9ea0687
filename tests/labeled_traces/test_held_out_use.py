from __future__ import annotations

import json
import random
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.held_out_use import (
    HeldOutUse,
    append_use,
    is_same,
    names_of,
    place_of,
    read_before,
    read_uses,
    sketches_of,
)
from labeled_traces.simulated import simulate
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


def test_a_copy_that_is_not_quite_equal_is_known_again(tmp_path: Path) -> None:
    """Other ids, a word changed here and there, one more key, a lost end; a run of another task is none."""
    rows = simulate(60, 0)
    held_out, others = rows[:20], [one for one in rows[20:] if one.group not in {row.group for row in rows[:20]}]
    read = replace(use(*names_of(held_out)), sketches=sketches_of(held_out))
    append_use(tmp_path / "uses.jsonl", read)
    (known,) = read_uses(tmp_path / "uses.jsonl")
    assert known == read
    draw = random.Random(0)

    def other(text: JSON) -> JSON:
        if isinstance(text, dict | list):
            items = text.items() if isinstance(text, dict) else enumerate(text)
            changed = {key: other(value) for key, value in items}
            return {**changed, "note": "x"} if isinstance(text, dict) else list(changed.values())
        if not isinstance(text, str):
            return text
        return " ".join("it" if draw.random() < 0.02 else word for word in text.split(" "))

    for place, one in enumerate(held_out):
        spans = tuple(
            replace(span, inputs=other(span.inputs) if span.parent_id else span.inputs, outputs=other(span.outputs))
            for span in one.trace.spans[: len(one.trace.spans) * 4 // 5]
        )
        copy = LabeledTrace(Trace(f"mine-{place}", spans))
        assert set(names_of([copy])).isdisjoint(known.traces)
        assert read_before([copy], [known]) == [copy]
        assert place_of(replace(use(*names_of([copy], [known]), time="2027"), id="new"), [known]) == 2
    assert read_before(others, [known]) == []


@pytest.mark.parametrize("sketch", [1, {"a": 1}, {"a": {}}, {"a": {"content": ["x"], "words": [], "numbers": []}}, []])
def test_a_sketch_that_is_none(tmp_path: Path, sketch: JSON) -> None:
    path = tmp_path / "uses.jsonl"
    path.write_text(json.dumps({**asdict(use("a")), "sketches": sketch}))
    with pytest.raises(TraceError, match="is no use of a testset as this program records it"):
        read_uses(path)


def test_uses_recorded_before_there_were_sketches_are_read(tmp_path: Path) -> None:
    values = asdict(use("a"))
    del values["sketches"]
    (tmp_path / "uses.jsonl").write_text(json.dumps(values))
    assert read_uses(tmp_path / "uses.jsonl")[0].traces == ("a",)
