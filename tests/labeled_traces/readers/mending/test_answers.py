from __future__ import annotations

import json
from pathlib import Path

import pytest

from judges.render import render
from labeled_traces.readers import read
from labeled_traces.readers.mending.answers import KIND, without_answers
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, Span, SpanKind, Trace

SECRET = 'zzgold mount "Erebus" it\'s 3794 m'
SWE: JSON = {
    "instance_id": "astropy__astropy-1",
    "patch": "diff --git a/zzgold.py",
    "test_patch": "diff --git a/zzgold_test.py",
    "FAIL_TO_PASS": '["test_zzgold[1]"]',
    "PASS_TO_PASS": ["test_zzgold[2]"],
}
GAIA: JSON = {"Question": "How high?", "Final answer": SECRET, "Annotator Metadata": {"Steps": f"1. {SECRET}"}}


def strip(*spans: Span) -> tuple[str, ReadReport]:
    """All that a judge reads of the spans, and all that a trace keeps of them."""
    report = ReadReport()
    kept = without_answers(spans, "file", report)
    return render(Trace("t", tuple(kept)), 100_000).text + str([vars(span) for span in kept]), report


def nested(value: JSON) -> list[JSON]:
    """One value in every form in which harnesses log it."""
    record = {"example": value, "task": "How high is it?"}
    text = json.dumps(record)
    return [
        record,
        [[{"deep": [record]}]],
        text,
        repr(record),
        {"args": repr(record)},
        json.dumps({"inputs": text}),
        json.dumps({"inputs": json.dumps({"again": text})}),
        json.dumps({"inputs": repr(record)}),
        repr({"inputs": text}),
        f"The inputs were:\n```\n{json.dumps(record, indent=2)}\n```\nNow solve it.",
        f"run({record!r}, retries=3) started",
        text[: text.rindex("zzgold") + 6],
        repr(record)[: repr(record).rindex("zzgold") + 6],
    ]


@pytest.mark.parametrize(
    "key",
    ["true_answer", "ground_truth", "expected_answer", "gold_answer", "reference_answer", "Ground Truth", "trueAnswer"],
)
@pytest.mark.parametrize("kind", ["CHAIN", "AGENT", "UNKNOWN", "LLM"])
def test_a_named_answer_in_any_form_is_left_out(key: str, kind: str) -> None:
    for value in ({key: SECRET}, {"a": {key: [SECRET, {"b": SECRET}]}}, {key: {"value": SECRET}}):
        for form in nested(value):
            if kind == "LLM":
                chat = {"messages": [{"role": "user", "content": form if isinstance(form, str) else json.dumps(form)}]}
                span = Span("a", None, "x", SpanKind.LLM, inputs=chat)
            else:
                span = Span("a", None, "x", SpanKind(kind), inputs=form, outputs=form)
            text, report = strip(span)
            assert "zzgold" not in text, form
            assert report.counts[KIND] >= 1


@pytest.mark.parametrize("kind", ["CHAIN", "AGENT", "LLM", "TOOL", "RETRIEVER"])
def test_what_came_out_of_the_run_stays_but_for_what_only_a_benchmark_names(kind: str) -> None:
    report = ReadReport()
    for form in [
        *nested({"ground_truth": SECRET, "expected": {"correct_answer": "B"}}),
        "Correct_answer: B, because the report says so",
        "Groundtruth: 5M",
        '{"expected_response": "sorry"}',
    ]:
        span = Span("a", None, "x", SpanKind(kind), outputs=form)
        assert without_answers([span], "file", report) == [span]
    assert report.counts == {}
    for form in nested({"true_answer": SECRET}):
        text, _ = strip(Span("a", None, "x", SpanKind(kind), outputs=form))
        assert "zzgold" not in text, form


def test_what_a_run_was_started_with_is_left_out_of_a_state_that_is_passed_through() -> None:
    state = {"question": "How high?", "ground_truth": "B"}
    outputs = {**state, "answer": {"correct_answer": "B"}}
    (kept,) = without_answers([Span("a", None, "x", SpanKind.CHAIN, None, None, state, outputs)], "file", ReadReport())
    assert kept.outputs == {"question": "How high?", "answer": {"correct_answer": "B"}}
    assert kept.inputs == {"question": "How high?"}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "name": "save", "arguments": '{"correct_answer": "Paris"}'},
        {"type": "function_call_output", "output": '{"correct_answer": "Paris"}'},
        {"role": "tool", "content": '{"correct_answer": "Paris"}'},
        {"role": "user", "content": [{"type": "tool_result", "content": '{"correct_answer": "Paris"}'}]},
        {"type": "ai", "content": "", "tool_calls": [{"args": {"expected_answer": "Paris"}}]},
    ],
)
@pytest.mark.parametrize("kind", ["CHAIN", "LLM"])
def test_an_agents_calls_and_their_results_stay_in_a_history(kind: str, item: JSON) -> None:
    span = Span("a", None, "x", SpanKind(kind), inputs={"input": [item]})
    assert without_answers([span], "file", ReadReport()) == [span]


SAMPLE = (
    *("expected_output", "reference_outputs", "reference_output", "expectations", "expected", "expected_result"),
    *("ideal", "gold", "gold_label", "answer_key", "canonical_solution", "gt_answer", "true_label", "oracle"),
    "groundtruth",
)


@pytest.mark.parametrize("key", SAMPLE)
def test_the_names_of_evaluation_samples_are_answers_in_what_a_run_was_started_with(key: str) -> None:
    sample = {"question": "How high?", key: SECRET}
    text, _ = strip(Span("a", None, "x", SpanKind.CHAIN, inputs=sample, attributes={"sample": sample}))
    assert "zzgold" not in text
    said = f"The {key.replace('_', ' ')}: {SECRET}"
    spans = [
        Span("b", None, "x", SpanKind.TOOL, inputs=sample, outputs=sample),
        Span("c", None, "x", SpanKind.CHAIN, inputs=said if key != "groundtruth" else "", outputs=said),
    ]
    assert without_answers(spans, "file", ReadReport()) == spans


@pytest.mark.parametrize("value", [SWE, GAIA, {"instance": SWE}, {"tests": {"x": SWE}, "patch": "zzgold"}])
def test_what_is_an_answer_only_beside_another_name(value: JSON) -> None:
    for form in nested(value):
        text, _ = strip(Span("a", None, "x", SpanKind.CHAIN, inputs=form))
        assert "zzgold" not in text, form


@pytest.mark.parametrize(
    "error",
    [
        f"ValueError: bad row { ({'true_answer': SECRET})!r}",
        "AssertionError: true_answer='zzgold 17', prediction='16'",
        'KeyError: Example(question="?", true_answer="zzgold 17")',
        "expected true_answer 'zzgold 17', got '16'",
        "config:\n  true_answer: zzgold 17\n  level: 1",
        "<true_answer>zzgold 17</true_answer>",
        "ground_truth=array(['zzgold', 'zzgold'])",
        f"wrong: {SECRET} was wanted",
        "Expected answer: zzgold, prediction: 16",
        "Ground truth = 'zzgold', not 16",
        "- **true_answer**: zzgold\n- **prediction**: 16",
        "question       How high?\ntrue_answer    zzgold 3794\nprediction     16",
        "| true_answer | zzgold |\n| prediction | 16 |",
    ],
)
def test_errors_and_names_hold_no_answer(error: str) -> None:
    harness = Span("a", None, "x", SpanKind.CHAIN, inputs={"true_answer": SECRET})
    text, _ = strip(harness, Span("b", "a", error, SpanKind.CHAIN, error=error, attributes={"note": error}))
    assert "zzgold" not in text
    for kept in ("16", "level: 1", "was wanted", "prediction"):
        assert (kept in text) == (kept in error)


def test_a_value_without_its_name_is_left_out_of_metadata_only() -> None:
    inputs = {"true_answer": SECRET, "metadata": {"note": f"({SECRET.upper()})"}, "question": f"Is it {SECRET}?"}
    harness = Span("a", None, "x", SpanKind.CHAIN, inputs=inputs)
    report = ReadReport()
    (kept,) = without_answers([harness], "file", report)
    assert kept.inputs == {"metadata": {"note": "([left out])"}, "question": f"Is it {SECRET}?"}
    assert report.counts == {KIND: 2}
    assert report.examples[KIND] == [
        "file, span a, inputs: true_answer",
        "file, span a, inputs: its value without a name",
    ]


def test_what_the_agent_found_stays_in_the_metadata_of_what_it_gave_out() -> None:
    found: JSON = {"info": {"height": SECRET}}
    harness = Span("a", None, "x", SpanKind.AGENT, inputs={"true_answer": SECRET}, outputs=found)
    kept = without_answers([harness, Span("b", "a", "x", SpanKind.LLM, outputs=SECRET)], "file", ReadReport())
    assert kept[0].outputs == found
    (kept_alone,) = without_answers([harness], "file", ReadReport())
    assert kept_alone.outputs == {"info": {"height": "[left out]"}}, "nobody in the run said it"


def test_short_answers_are_not_looked_for_without_their_name() -> None:
    harness = Span("a", None, "x", SpanKind.CHAIN, inputs={"true_answer": "17"}, error="HTTP 417 after 17 s")
    (kept,) = without_answers([harness], "file", ReadReport())
    assert (kept.inputs, kept.error) == ({}, "HTTP 417 after 17 s")


def test_what_the_agent_said_stays_even_if_it_is_right() -> None:
    final = "The correct answer: 3794 m. Ground truth: unknown."
    code = "ground_truth = load()\nexpected_answer = {'ground_truth': 5}\ntrue_answer = 17"
    said: JSON = {
        "messages": [
            {
                "role": "assistant",
                "content": f"{code}\nIt is {SECRET}",
                "tool_calls": [{"id": "1", "name": "final", "arguments": {"correct_answer": SECRET}}],
            }
        ]
    }
    spans = [
        Span(
            "a",
            None,
            "run",
            SpanKind.CHAIN,
            inputs={"true_answer": SECRET},
            outputs={"prediction": SECRET, "text": final},
        ),
        Span("b", "a", "model", SpanKind.LLM, inputs=said, outputs=said),
        Span("c", "a", "final", SpanKind.TOOL, inputs={"ground_truth": SECRET}, outputs=SECRET, error=f"no {SECRET}!"),
        Span("d", "a", "apply_patch", SpanKind.TOOL, inputs={"patch": "+1"}, outputs={"patch": "+1", "n": 1}),
    ]
    report = ReadReport()
    kept = without_answers(spans, "file", report)
    assert kept[1:] == spans[1:]
    assert kept[0].outputs == {"prediction": SECRET, "text": final}
    assert report.counts == {KIND: 1}


def test_a_tools_schema_may_name_an_answer() -> None:
    schema = {"name": "grade", "parameters": {"properties": {"expected_answer": {"type": "string"}}}}
    spans = [
        Span("a", None, "model", SpanKind.LLM, inputs={"messages": [], "tools": [schema]}),
        Span("b", None, "list_tools", SpanKind.TOOL, outputs=[schema]),
    ]
    assert without_answers(spans, "file", ReadReport()) == spans


@pytest.mark.parametrize("text", ["The patch answers the truth: gold is expected.", "answer", '{"answer": "17"}', ""])
def test_ordinary_words_stay(text: str) -> None:
    span = Span("a", None, text, SpanKind.CHAIN, inputs=text, outputs={"answer": text, "patch": text}, error=text)
    assert without_answers([span], "file", ReadReport()) == [span]


def test_a_long_text_is_searched_in_little_time() -> None:
    text = 'the answer "is" \\"here\\" ' * 40_000
    span = Span("a", None, "x", SpanKind.CHAIN, inputs=text)
    assert without_answers([span], "file", ReadReport()) == [span]


def test_every_reader_leaves_answers_out(tmp_path: Path) -> None:
    example = {"example": {"true_answer": SECRET}}
    attributes = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(example), "metadata": repr(example)}
    flat = {"name": "x", "trace_id": "ab", "span_id": "cd", "attributes": attributes}
    inputs = {"mlflow.spanInputs": json.dumps(example), "mlflow.spanType": '"CHAIN"'}
    sent = {"span_id": "1" * 16, "name": "x", "attributes": inputs}
    chat = [{"role": "user", "content": repr(example)}, {"role": "assistant", "content": "hm"}]
    records: dict[str, JSON] = {
        "openinference": flat,
        "mlflow": {"info": {"trace_id": "tr-1"}, "data": {"spans": [sent]}},
        "agentrx": {"task_id": 1, "trial": 0, "reward": 0.0, "traj": chat},
    }
    for name, record in records.items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(record))
        (row,), report = read(path, name)
        assert "zzgold" not in render(row.trace, 100_000).text + str(row)
        assert report.counts[KIND] >= 1, name
