from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace, to_json
from labeled_traces.label import Impact, ScoreLabel
from labeled_traces.readers import read
from labeled_traces.readers.report import LABEL, RECORD, ReadReport
from labeled_traces.trace import JSON, TraceError

GOLD = "gold-answer-4711"
ID = "searchR1_hotpotqa:3:0"
STEPS: dict[str, JSON] = {"2": 1, "4": -1, "5": 0, "6": -1}


def run(**fields: JSON) -> dict[str, JSON]:
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query_list": ["x"]}'}}
    return {
        "total_index": 15,
        "query_index": 3,
        "sample_index": 0,
        "question": "Who founded it?",
        "data_source": "searchR1_hotpotqa",
        "ground_truth": {"target": [GOLD, "another"]},
        "answer_text": "Nobody",
        "messages": [
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": "Who founded it?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "name": "search", "content": "a page", "tool_call_id": "c1"},
            {"role": "assistant", "content": "It was founded."},
            {"role": "assistant", "content": "Let me see."},
            {"role": "assistant", "content": "Nobody"},
        ],
        "tool_metrics": {"search": [{"status": "success"}]},
        "tools": [{"type": "function", "function": {"name": "search", "parameters": {}}}],
        "step_labels": STEPS,
        "final_label": -1,
        **fields,
    }


def review(rater: str, steps: JSON = None, final: JSON = -1, **fields: JSON) -> dict[str, JSON]:
    """Labels as the annotation tool exports them."""
    given = {"step_labels": STEPS if steps is None else steps, "final_label": final, "status": "done"}
    return {"record_id": ID, "username": rater, **given, "updated_at": "2026-02-04T14:00:00+00:00", **fields}


def write(path: Path, value: JSON) -> Path:
    path.write_text(json.dumps(value))
    return path


def imported(tmp_path: Path, record: JSON, *labels: JSON, strict: bool = True) -> tuple[Dataset, ReadReport]:
    beside = write(tmp_path / "labels.json", list(labels)) if labels else None
    return read(write(tmp_path / "runs.json", [record]), labels=beside, strict=strict)


def only(tmp_path: Path, record: JSON, *labels: JSON) -> LabeledTrace:
    (row,) = imported(tmp_path, record, *labels)[0]
    return row


def test_steps_count_all_messages_from_zero(tmp_path: Path) -> None:
    row = only(tmp_path, run())
    assert (row.trace_id, row.group) == (ID, "searchR1_hotpotqa:3")
    assert [(error.span_id, error.category, error.impact) for error in row.errors] == [
        ("step-4", "Wrong Step", Impact.HIGH),
        ("step-5", "No Progress", Impact.LOW),
        ("step-6", "Wrong Step", Impact.MEDIUM),
    ]
    mixed = ("logical_consistency", "tool_selection", "tool_calling", "execution_efficiency")
    assert [error.dimensions for error in row.errors] == [mixed, ("execution_efficiency",), mixed]
    assert row.scores == (ScoreLabel("goal_fulfillment", 0, "AgentProcessBench"),)


def test_positive_steps_say_that_a_person_looked(tmp_path: Path) -> None:
    row = only(tmp_path, run(step_labels={"2": 1, "4": 1, "5": 1, "6": 1}, final_label=1))
    assert (row.clean, row.raters, row.errors, row.is_clean) == ("checked", ("AgentProcessBench",), (), True)
    assert row.scores == (ScoreLabel("goal_fulfillment", 3, "AgentProcessBench"),)
    assert row.metadata["step labels of AgentProcessBench"] == {f"step-{step}": 1 for step in (2, 4, 5, 6)}


def test_a_run_that_reached_its_goal_has_no_error_of_high_impact(tmp_path: Path) -> None:
    assert [error.impact for error in only(tmp_path, run(final_label=1)).errors].count(Impact.HIGH) == 0
    assert only(tmp_path, run(final_label=0)).scores == ()


def test_a_run_with_an_unlabelled_step_was_not_read_as_a_whole(tmp_path: Path) -> None:
    for steps in ({"2": 1, "4": 1, "5": 1}, {"2": 1, "4": 1, "5": 1, "6": None}):
        data, report = imported(tmp_path, run(step_labels=steps))
        assert (data[ID].clean, data[ID].raters, data[ID].is_clean) == ("partial", (), False)
        assert report.counts == {"message of the agent that its rater has not labelled": 1}


def test_labels_of_what_is_none_of_the_agents_messages_are_listed(tmp_path: Path) -> None:
    data, report = imported(tmp_path, run(step_labels={**STEPS, "3": -1, "7": 0, "x": -1}))
    assert [error.span_id for error in data[ID].errors].count(None) == 3
    assert len(report.unjoined) == 3


@pytest.mark.parametrize("value", [2, "good", True, 0.5, []])
def test_a_value_that_is_no_label_is_left_out(tmp_path: Path, value: JSON) -> None:
    record = run(step_labels={**STEPS, "6": value})
    with pytest.raises(TraceError, match=r"step_labels\.6: is .*: accepted are 1, 0 and -1"):
        imported(tmp_path, record)
    data, report = imported(tmp_path, record, strict=False)
    assert (report.counts[LABEL], len(data[ID].errors), data[ID].clean) == (1, 2, "partial")


def test_values_as_a_table_writes_them(tmp_path: Path) -> None:
    row = only(tmp_path, run(step_labels={"2": "+1", "4": -1.0, "5": "0", "6": "-1", "99": None}, final_label="-1"))
    assert row.errors == only(tmp_path, run()).errors


def test_the_answer_and_the_labels_stay_out_of_the_trace(tmp_path: Path) -> None:
    data, report = imported(tmp_path, run(reward_info={"reward": 0}))
    shown = json.dumps(to_json(data[ID])["trace"])
    for hidden in (GOLD, "label", "reward", "tool_metrics"):
        assert hidden not in shown
    assert data[ID].reference == f"{GOLD}\nanother"
    assert report.stripped == dict.fromkeys(("ground_truth", "step_labels", "final_label", "reward_info"), 1)
    calls = [["cd(folder='x')"], ["ls()"]]
    assert only(tmp_path, run(ground_truth=calls)).reference == json.dumps(calls)


def test_the_tools_and_the_calls_are_there(tmp_path: Path) -> None:
    spans = only(tmp_path, run()).trace.by_id
    assert spans["step-2"].inputs["tools"] == run()["tools"]
    assert (spans["step-3"].parent_id, spans["step-3"].inputs) == ("step-2", {"query_list": ["x"]})


def test_the_labels_that_are_published_beside_the_runs_count_once(tmp_path: Path) -> None:
    beside = {"record_id": ID, "dataset": "hotpotqa", "step_labels": STEPS, "final_label": -1}
    assert only(tmp_path, run(), beside, beside) == only(tmp_path, run())
    with pytest.raises(TraceError, match=rf"record 1: other labels of '{ID}' than those at"):
        imported(tmp_path, run(), {**beside, "final_label": 1})


def test_several_raters_are_all_kept_each_with_the_newest_labels(tmp_path: Path) -> None:
    old = review("ann", {"2": -1, "4": -1, "5": -1, "6": -1}, updated_at="2026-02-03T00:00:00+00:00")
    labels = [old, review("ann"), review("bob", {"2": 1, "4": 1, "5": 1, "6": 1}, 1), old]
    data, report = imported(tmp_path, run(), *labels, review("ann", status="draft"))
    row = data[ID]
    assert row.raters == ("AgentProcessBench", "ann", "bob")
    assert [error.rater for error in row.errors] == [*3 * ["AgentProcessBench"], *3 * ["ann"]]
    assert {error.time for error in row.errors if error.rater == "ann"} == {1770213600.0}
    assert row.metadata["step labels of bob"] == dict.fromkeys(("step-2", "step-4", "step-5", "step-6"), 1)
    assert report.counts == {
        "labels that their rater has changed, the newest taken": 2,
        "labels that their rater has not finished, left out": 1,
    }
    with pytest.raises(TraceError, match="other labels of 'ann' for"):
        imported(tmp_path, run(), review("ann"), review("ann", final=1))


def test_what_a_model_labelled_is_nobodys_label(tmp_path: Path) -> None:
    model = review("deepseek-chat", explanations={"steps": {}})
    with pytest.raises(TraceError, match=r"no labels of AgentProcessBench: accepted is .* of a person"):
        imported(tmp_path, run(), review("ann"), model)
    data, report = imported(tmp_path, run(), review("ann"), model, strict=False)
    assert data[ID].raters == ("AgentProcessBench", "ann")
    assert report.counts == {RECORD: 1}


def test_labels_of_other_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"labels of 'x:1:2', which is no trace that was read \(4 such labels\)"):
        imported(tmp_path, run(), review("ann", record_id="x:1:2"))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (run(messages=[]), "messages: is list or empty: accepted is a list of chat messages"),
        (run(query_index=None), "accepted is a record with a record_id, or data_source, query_index and sample_index"),
        (run(step_labels=[1]), "not a run of AgentProcessBench: accepted is"),
        (3, "not a run of AgentProcessBench"),
    ],
)
def test_bad_runs_name_file_record_and_field(tmp_path: Path, record: JSON, message: str) -> None:
    path = write(tmp_path / "runs.json", [run(), record])
    with pytest.raises(TraceError, match=rf"runs\.json, line 1, record 2.*{message}"):
        read(path, strict=True)
    data, report = read(path)
    assert data.ids == (ID,)
    assert report.counts == {RECORD: 1}
