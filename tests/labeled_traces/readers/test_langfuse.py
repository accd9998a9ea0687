from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.readers import read, sniff
from labeled_traces.readers.labels.feedback import NO_CATEGORY
from labeled_traces.readers.labels.mlflow import NO_PERSON
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError


def observation(name: str, parent: str | None, kind: str, **more: JSON) -> dict[str, JSON]:
    return {
        "id": name,
        "traceId": "t1",
        "parentObservationId": parent,
        "type": kind,
        "name": name,
        "startTime": f"2026-01-01T10:00:0{len(name)}.000Z",
        "endTime": None,
        "level": "DEFAULT",
        "statusMessage": None,
        "input": None,
        "output": None,
        "metadata": None,
        **more,
    }


def run() -> list[dict[str, JSON]]:
    asked = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "How high?"}]
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "tower"}'}}
    answer = {"role": "assistant", "tool_calls": [call]}
    usage: JSON = {"input": 12, "output": 3, "total": 15, "input_cached_tokens": 4}
    called = observation("llm", "r", "GENERATION", input=json.dumps(asked), output=answer, usageDetails=usage)
    return [
        observation("r", None, "SPAN", input='{"question": "How high?"}', output='"330 m"'),
        {**called, "model": "m-1"},
        observation("tool", "r", "TOOL", input='{"at": "tower"}', level="ERROR", statusMessage="no tower"),
    ]


def score(name: str, **more: JSON) -> dict[str, JSON]:
    return {
        "id": f"s-{name}",
        "traceId": "t1",
        "name": name,
        "source": "ANNOTATION",
        "dataType": "NUMERIC",
        "value": 1,
        "authorUserId": "ann",
        "updatedAt": "2026-01-02T00:00:00.000Z",
        **more,
    }


def imported(path: Path, value: JSON, **options: Any) -> tuple[Dataset, ReadReport]:
    path.write_text(json.dumps(value), encoding="utf-8")
    assert sniff(path) == "langfuse"
    return read(path, **options)


def lines(path: Path, records: Sequence[JSON]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def snake(record: dict[str, JSON]) -> dict[str, JSON]:
    return {"".join(f"_{c.lower()}" if c.isupper() else c for c in key): value for key, value in record.items()}


FORMS: dict[str, JSON] = {
    "export of the app": {"trace": {"id": "t1", "sessionId": "chat 7"}, "observations": run()},
    "trace of the API": {"id": "t1", "sessionId": "chat 7", "timestamp": "x", "observations": run(), "scores": []},
    "list of the API": {"data": run()[::-1], "meta": {"page": 1}},
    "storage export": [snake(item) for item in run()],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_trace_is_the_same_trace(tmp_path: Path, form: str) -> None:
    rows, report = imported(tmp_path / "a.json", FORMS[form])
    (row,) = rows
    root, llm, tool = row.trace.spans
    assert report.counts == {}
    assert (row.trace_id, root.kind, root.inputs, root.outputs) == ("t1", "AGENT", {"question": "How high?"}, '"330 m"')
    assert llm.inputs["messages"][0] == {"role": "system", "content": "Be exact."}
    assert llm.outputs["messages"][0]["tool_calls"] == [{"id": "c1", "name": "look", "arguments": {"at": "tower"}}]
    assert llm.attributes == {
        "llm.token_count": {"prompt": 12, "completion": 3, "total": 15},
        "llm.model_name": "m-1",
    }
    assert (tool.kind, tool.inputs, tool.status, tool.error) == ("TOOL", {"at": "tower"}, "ERROR", "no tower")
    assert (llm.start, tool.parent_id) == (1767261603.0, "r")
    assert row.metadata.get("session") == ("chat 7" if "of the" in form and "list" not in form else None)


def test_lists_of_traces_observations_and_scores_are_joined(tmp_path: Path) -> None:
    """The API lists each of them on its own; the trace names its observations by their ids only."""
    other = [{**item, "traceId": "t2"} for item in run()]
    mixed = [item for pair in zip(run(), other, strict=True) for item in pair]
    trace = {"id": "t2", "timestamp": "x", "sessionId": "chat 8", "observations": ["r"], "scores": ["s-x"]}
    files = [lines(tmp_path / "o.jsonl", mixed), lines(tmp_path / "t.jsonl", [trace])]
    files.append(lines(tmp_path / "s.jsonl", [score("gpa_plan_quality", traceId="t2")]))
    rows, _ = read(files)
    assert [len(row.trace.spans) for row in rows] == [3, 3]
    assert rows["t2"].metadata["session"] == "chat 8"
    assert rows["t2"].scores[0].dimension == "plan_quality"
    assert not rows["t1"].scores


def test_what_people_said_is_a_label_and_what_evaluators_said_is_not(tmp_path: Path) -> None:
    scores = [
        score("gpa_tool_calling", value=2, comment="once"),
        score(
            "gpa_error", stringValue="Tool Selection Errors", dataType="CATEGORICAL", observationId="llm", comment="why"
        ),
        score("kind", stringValue="Goal Deviation", dataType="CATEGORICAL", authorUserId="bob"),
        score("Resource Abuse", value=1, dataType="BOOLEAN", observationId="tool"),
        score("Formatting Errors", value=0, dataType="BOOLEAN"),
        score("gpa_plan_quality", value=0, source="EVAL"),
        score("gpa_plan_adherence", value=0, source="API"),
        score("helpful", value=1),
    ]
    trace = {"id": "t1", "scores": scores, "corrections": [{"longStringValue": "324 m, as a gold answer says"}]}
    rows, report = imported(tmp_path / "a.json", {"trace": trace, "observations": run()})
    row = rows["t1"]
    assert [(label.dimension, label.score, label.rater) for label in row.scores] == [("tool_calling", 2, "ann")]
    said = {(error.category, error.span_id, error.rater) for error in row.errors if error.category != "not placed"}
    assert said == {
        ("Tool Selection Errors", "llm", "ann"),
        ("Goal Deviation", None, "bob"),
        ("Resource Abuse", "tool", "ann"),
    }
    assert row.clean == "checked"
    assert row.reference == "324 m, as a gold answer says"
    assert report.stripped["trace.corrections"] == 1
    assert report.counts[NO_PERSON] == 2
    assert report.counts[NO_CATEGORY] == 1
    assert "gold answer" not in json.dumps([vars(span) for span in row.trace.spans])


def test_scores_of_a_trace_that_is_not_there_are_an_error(tmp_path: Path) -> None:
    path = lines(tmp_path / "s.jsonl", [score("gpa_error", traceId="t9", stringValue="none")])
    with pytest.raises(TraceError, match="labels of 't9', which is no trace that was read"):
        imported(tmp_path / "a.json", run(), labels=path)
    rows, _ = imported(tmp_path / "a.json", run(), labels=path, allow_missing=True)
    assert rows.ids == ("t1",)


def test_users_metadata_stays_out(tmp_path: Path) -> None:
    item = observation("r", None, "SPAN", input="x", metadata={"ground_truth": "the secret", "attributes": {"a": 1}})
    rows, _ = imported(
        tmp_path / "a.json", {"trace": {"id": "t1", "metadata": {"gold": "secret"}}, "observations": [item]}
    )
    assert "secret" not in json.dumps([vars(span) for span in rows["t1"].trace.spans])
    assert "secret" not in json.dumps(dict(rows["t1"].metadata))


def test_a_trace_without_a_root_and_one_with_several(tmp_path: Path) -> None:
    spans = [observation("a", "gone", "SPAN", input="x"), observation("ab", "a", "GENERATION", input="hi", output="yo")]
    rows, report = imported(tmp_path / "a.json", spans)
    assert [(s.span_id, s.parent_id, s.kind) for s in rows["t1"].trace.spans] == [
        ("a", None, "AGENT"),
        ("ab", "a", "LLM"),
    ]
    assert report.counts["span with an unknown parent, now a root"] == 1
    two = {
        "trace": {"id": "t1", "name": "both", "input": '"goal"'},
        "observations": [*run(), observation("z", None, "SPAN")],
    }
    rows, _ = imported(tmp_path / "b.json", two)
    root = rows["t1"].trace.spans[0]
    assert (root.span_id, root.name, root.kind, root.inputs, root.outputs) == ("t1", "both", "AGENT", "goal", None)
    assert [span.span_id for span in rows["t1"].trace.children("t1")] == ["r", "z"]


def test_json_in_json_and_python_reprs_of_tools(tmp_path: Path) -> None:
    tool = observation("tool", None, "TOOL", input="{'q': 'é', 'n': None}", output=json.dumps('{"found": [1]}'))
    rows, report = imported(tmp_path / "a.json", [tool])
    span = rows["t1"].trace.spans[0]
    assert span.inputs == {"q": "é", "n": None}
    assert report.counts["Python repr"] == 1


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"trace": {}, "observations": [observation("r", None, "SPAN")]}, "trace.id: is missing"),
        ({"trace": {"id": "t1"}, "observations": []}, "has no observations, which are its spans"),
        ({"id": "t1", "timestamp": "x", "userId": None, "observations": ["r"]}, "has no observations"),
    ],
)
def test_what_cannot_be_read_says_what_would_be(tmp_path: Path, record: JSON, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        imported(tmp_path / "a.json", record)
