from __future__ import annotations

import random
import time

from labeled_traces.copied_text import copied_runs
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.trace import JSON, Span, Trace


def row(trace_id: str, outputs: JSON, **fields: JSON) -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", outputs=outputs),)), **fields)


def test_every_place_of_a_row_counts() -> None:
    label = ErrorLabel(
        "a", (), "x", Impact.LOW, description="description words one two", evidence="evidence words three four"
    )
    rows = [
        row("nested", {"messages": [{"content": ["deep inside of a message"]}]}),
        row("labels", None, errors=(label,)),
        row("reference", None, reference="the only right answer"),
        LabeledTrace(Trace("span", (Span("a", None, "n", inputs="went into the span", error="it broke right here"),))),
    ]
    texts = {
        "p1": "deep inside of a message / description words one two / the only right answer",
        "p2": "evidence words three four / went into the span / it broke right here",
    }
    found = {(copy.name, copy.trace_id) for copy in copied_runs(texts, rows, words=4)}
    assert found == {("p1", "nested"), ("p1", "labels"), ("p1", "reference"), ("p2", "labels"), ("p2", "span")}


def test_runs_do_not_cross_texts_and_short_texts_are_no_copies() -> None:
    rows = [row("t", ["one two three", "four five six"])]
    assert list(copied_runs({"p": "one two three four five six"}, rows, words=4)) == []
    assert [copy.run for copy in copied_runs({"p": "one two three four five six"}, rows, words=3)] == ["one two three"]


def test_known_rows_excuse_a_run() -> None:
    rows = [row("t", "a b c d e f"), row("u", "b c d e f g")]
    assert [copy.trace_id for copy in copied_runs({"p": "b c d e f g"}, rows, words=5)] == ["t", "u"]
    assert [copy.run for copy in copied_runs({"p": "b c d e f g"}, rows, words=5, known=[rows[0]])] == ["c d e f g"]


def test_scripts_without_spaces_count_characters() -> None:
    rows = [row("t", "赤道の長さは約四万キロメートルです")]
    assert [copy.trace_id for copy in copied_runs({"p": "例:「赤道の長さは約四万キロ」"}, rows)] == ["t"]
    assert list(copied_runs({"p": "赤道は長い"}, rows)) == []


def test_a_hundred_traces_against_fourteen_texts_is_fast() -> None:
    rng = random.Random(0)
    vocabulary = [f"word{i}" for i in range(5000)]
    rows = [row(f"t{i}", [" ".join(rng.choices(vocabulary, k=2000))] * 12) for i in range(100)]
    texts = {f"p{i}": " ".join(rng.choices(vocabulary, k=1500)) for i in range(14)}
    start = time.perf_counter()
    assert list(copied_runs(texts, rows, known=rows[:50])) == []
    assert time.perf_counter() - start < 5
