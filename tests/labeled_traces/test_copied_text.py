from __future__ import annotations

import json
import random
import time
import unicodedata

import pytest

from labeled_traces.copied_text import copied_runs, said_in
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
    found = {(copy.name, copy.trace_id) for copy in copied_runs(texts, said_in(rows), words=4)}
    assert found == {("p1", "nested"), ("p1", "labels"), ("p1", "reference"), ("p2", "labels"), ("p2", "span")}


def test_runs_do_not_cross_texts_and_short_texts_are_no_copies() -> None:
    rows = [LabeledTrace(Trace("t", (Span("a", None, "n", inputs="one two three", outputs="four five six"),)))]
    assert list(copied_runs({"p": "one two three four five six"}, said_in(rows), words=4)) == []
    assert [copy.run for copy in copied_runs({"p": "one two three four five six"}, said_in(rows), words=3)] == [
        "one two three"
    ]


def test_known_rows_excuse_a_run() -> None:
    rows = [row("t", "a b c d e f"), row("u", "b c d e f g")]
    assert [copy.trace_id for copy in copied_runs({"p": "b c d e f g"}, said_in(rows), words=5)] == ["t", "u"]
    assert [
        copy.run for copy in copied_runs({"p": "b c d e f g"}, said_in(rows), words=5, known=said_in([rows[0]]))
    ] == ["c d e f g"]


def test_scripts_without_spaces_count_characters() -> None:
    rows = [row("t", "赤道の長さは約四万キロメートルです")]
    assert [copy.trace_id for copy in copied_runs({"p": "例:「赤道の長さは約四万キロ」"}, said_in(rows))] == ["t"]
    assert list(copied_runs({"p": "赤道は長い"}, said_in(rows))) == []


def test_a_hundred_traces_against_fourteen_texts_is_fast() -> None:
    rng = random.Random(0)
    vocabulary = [f"word{i}" for i in range(5000)]
    rows = [row(f"t{i}", [" ".join(rng.choices(vocabulary, k=2000))] * 12) for i in range(100)]
    texts = {f"p{i}": " ".join(rng.choices(vocabulary, k=1500)) for i in range(14)}
    start = time.perf_counter()
    assert list(copied_runs(texts, said_in(rows), known=said_in(rows[:50]))) == []
    assert time.perf_counter() - start < 5


SAID = 'He said:\n\t"the café of Nordbank 🙂 closes"\r\nat nine in the new/town C:\\\\new'


def in_json(key: str, text: str, times: int, ascii_only: bool) -> str:
    for _ in range(times):
        text = json.dumps({key: [text]}, ensure_ascii=ascii_only)
    return text


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("in_prompt", [0, 1, 2, 3])
@pytest.mark.parametrize("in_trace", [0, 1, 2])
def test_text_inside_of_json_is_found_however_deep(in_prompt: int, in_trace: int, ascii_only: bool) -> None:
    """As in `examples.jsonl`, in a tool's arguments, in a tool's result that holds JSON as text."""
    rows = [row("t", {"result": in_json("result", SAID, in_trace, not ascii_only)})]
    (copy,) = copied_runs({"p": in_json("excerpt", SAID, in_prompt, ascii_only)}, said_in(rows), words=15)
    assert copy.run == "he said the cafe of nordbank closes at nine in the new town c ew"


WRITTEN = "Die größte Bank in Zürich öffnet um 9"
WAYS = {
    "decomposed": unicodedata.normalize("NFD", WRITTEN),
    "wide letters": "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in WRITTEN),
    "zero width": "\u200b".join(WRITTEN),
    "soft hyphens": WRITTEN.replace("t", "t\u00ad").replace("ö", "ö\ufe0f\ufeff"),
    "underscores": WRITTEN.replace(" ", "_"),
    "HTML": "Die gr&ouml;&szlig;te Bank&nbsp;in Z&#252;rich &#xF6;ffnet um&amp;#32;9",
    "HTML in JSON": json.dumps(["Die gr&amp;ouml;ßte Bank in Z&uuml;rich öffnet um 9"]),
}


@pytest.mark.parametrize("copy", WAYS.values(), ids=WAYS)
def test_how_a_text_is_written_does_not_count(copy: str) -> None:
    for said, prompt in ((WRITTEN, copy), (copy, WRITTEN)):
        (found,) = copied_runs({"p": prompt}, said_in([row("t", {"text": said})]), words=8)
        assert found.run == "die grosste bank in zurich offnet um 9"


@pytest.mark.parametrize("times", [0, 1, 2])
def test_structured_values_count_as_json_shows_them(times: int) -> None:
    call = {"user": "u_7", "items": [{"id": 4, "ok": True}, {"id": 5.5, "ok": None}]}
    rows = [
        row("value", {"result": call}),
        row("text", {"result": json.dumps(call, indent=2)}),
        row(
            "call", {"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": json.dumps(call)}]}]}
        ),
    ]
    prompt = json.dumps(call)
    for _ in range(times):
        prompt = json.dumps({"excerpt": f"> {prompt}"})
    found = list(copied_runs({"p": prompt}, said_in(rows), words=12))
    assert [copy.trace_id for copy in found] == ["value", "text", "call"]
    assert found[0].run == "user u 7 items id 4 ok true id 5 5 ok"


def test_a_conversation_that_repeats_is_looked_at_once() -> None:
    messages = [{"role": "user", "content": f"message number {i} of a long talk"} for i in range(400)]
    spans = tuple(Span(f"s{i}", None, "llm", inputs={"messages": messages[: i + 1]}) for i in range(400))
    start = time.perf_counter()
    prompts = {"p": "message number 399 of a long talk"}
    assert [copy.trace_id for copy in copied_runs(prompts, said_in([LabeledTrace(Trace("t", spans))]), words=7)] == [
        "t"
    ]
    assert time.perf_counter() - start < 5
