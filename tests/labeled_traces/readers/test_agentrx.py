from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace, to_json
from labeled_traces.label import Impact
from labeled_traces.readers import OTHER_FORMAT, read
from labeled_traces.readers.files.records import OTHER_FILE
from labeled_traces.readers.mending.hidden_errors import KIND as HIDDEN_ERROR
from labeled_traces.readers.report import LABEL, RECORD, ReadReport
from labeled_traces.trace import JSON, SpanKind, TraceError

GOLD = "gold-output-918.43"


def call(name: str, arguments: str, call_id: str = "c1") -> dict[str, JSON]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def messages() -> list[dict[str, JSON]]:
    return [
        {"role": "system", "content": "# Policy", "index": 1},
        {"role": "user", "content": "Hi, what does it cost?", "index": 2},
        {"role": "assistant", "content": None, "tool_calls": [call("price", '{"item": "7"}')], "index": 3},
        {"role": "tool", "tool_call_id": "c1", "name": "price", "content": '{"price": 5}', "index": 4},
        {"role": "assistant", "content": "It costs 6.", "refusal": None, "annotations": [], "index": 5},
        {"role": "user", "content": "Thanks! ###STOP###", "index": 6},
    ]


def run(task_id: JSON = 2, reward: JSON = 0.0, trial: JSON = 0, **fields: JSON) -> dict[str, JSON]:
    task = {
        "user_id": "u",
        "actions": [{"name": "gold_action", "kwargs": {"gold": 1}}],
        "instruction": "secret instruction",
        "outputs": [GOLD, "5"],
    }
    return {
        "task_id": task_id,
        "reward": reward,
        "info": {"task": task, "source": "user", "user_cost": 720, "reward_info": {"reward": reward, "actions": []}},
        "traj": messages(),
        "trial": trial,
        "records": {"note": "secret record"},
        **fields,
    }


def labels(trajectory_id: JSON = 2, **failure: JSON) -> dict[str, JSON]:
    given = {
        "failure_id": 1,
        "step_number": 5,
        "step_reason": "Wrong price.",
        "failure_category": "Misinterpretation of Tool Output",
        "category_reason": "The tool said 5.",
        "failed_agent": "Assistant",
    }
    return {
        "trajectory_id": trajectory_id,
        "failures": [{**given, **failure}],
        "root_cause": {"failure_id": 1, "reason_for_root_cause": "see above"},
        "failure_summary": "Wrong price.",
    }


def import_runs(
    tmp_path: Path, runs: JSON, found: JSON = None, strict: bool = True, allow_missing: bool = False
) -> tuple[Dataset, ReadReport]:
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    if found is None:
        return read(tmp_path / "runs.json", strict=strict)
    (tmp_path / "labels.json").write_text(json.dumps(found))
    return read(tmp_path / "runs.json", labels=tmp_path / "labels.json", strict=strict, allow_missing=allow_missing)


def only(data: Dataset) -> LabeledTrace:
    (row,) = data
    return row


def test_every_message_is_a_span_below_one_root(tmp_path: Path) -> None:
    data, report = import_runs(tmp_path, [run()], [labels()])
    row = only(data)
    assert row.trace_id == "tau-2-0"
    assert row.group == "tau-2"
    assert [(one.span_id, one.parent_id, one.name, str(one.kind)) for one in row.trace.spans] == [
        ("run", None, "agent", "AGENT"),
        ("step-0", "run", "system", "CHAIN"),
        ("step-1", "run", "user", "CHAIN"),
        ("step-2", "run", "assistant", "LLM"),
        ("step-3", "step-2", "price", "TOOL"),
        ("step-4", "run", "assistant", "LLM"),
        ("step-5", "run", "user", "CHAIN"),
    ]
    spans = row.trace.by_id
    assert (spans["run"].inputs, spans["run"].outputs) == ("Hi, what does it cost?", "It costs 6.")
    assert spans["step-0"].inputs == "# Policy"
    calls = [{"id": "c1", "name": "price", "arguments": {"item": "7"}}]
    assert spans["step-2"].outputs == {"messages": [{"role": "assistant", "content": None, "tool_calls": calls}]}
    assert (spans["step-3"].inputs, spans["step-3"].outputs) == ({"item": "7"}, '{"price": 5}')
    assert spans["step-4"].outputs == {"messages": [{"role": "assistant", "content": "It costs 6."}]}
    assert report.counts == {}


def test_step_numbers_count_from_one_with_the_system_message(tmp_path: Path) -> None:
    (error,) = only(import_runs(tmp_path, [run()], [labels()])[0]).errors
    assert error.span_id == "step-4"
    assert (error.category, error.dimensions) == (
        "Misinterpretation of Tool Output",
        ("tool_calling", "logical_consistency"),
    )
    assert error.impact is Impact.HIGH
    assert error.description == "Wrong price.\nThe tool said 5."


@pytest.mark.parametrize(
    ("step", "span_id"),
    [
        (1, "step-0"),
        (6, "step-5"),
        ("3", "step-2"),
        (0, None),
        (7, None),
        (-1, None),
        ("x", None),
        (None, None),
        (2.0, None),
    ],
)
def test_steps_at_and_beyond_the_ends(tmp_path: Path, step: JSON, span_id: str | None) -> None:
    data, report = import_runs(tmp_path, [run()], [labels(step_number=step)])
    assert only(data).errors[0].span_id == span_id
    assert report.counts == ({} if span_id else {"label that names no span of its trace, kept without one": 1})


def test_the_users_faults_lie_outside_gpa_and_keep_their_category(tmp_path: Path) -> None:
    data, report = import_runs(tmp_path, [run()], [labels(failed_agent="User", step_number=6)])
    (error,) = only(data).errors
    assert error.dimensions == ()
    assert error.category == "Misinterpretation of Tool Output"
    assert report.counts == {}


def test_what_is_not_the_root_cause_is_medium(tmp_path: Path) -> None:
    found = labels()
    found["failures"].append({**found["failures"][0], "failure_id": 2, "step_number": 3})
    data, _ = import_runs(tmp_path, [run()], [found])
    assert [error.impact for error in only(data).errors] == [Impact.HIGH, Impact.MEDIUM]
    found["root_cause"] = {"failure_id": 9}
    data, report = import_runs(tmp_path, [run()], [found])
    assert [error.impact for error in only(data).errors] == [Impact.MEDIUM, Impact.MEDIUM]
    assert report.counts == {"root cause that is none of the failures": 1}


def test_the_answer_stays_out_of_the_trace(tmp_path: Path) -> None:
    row = only(import_runs(tmp_path, [run()], [labels()])[0])
    shown = json.dumps(to_json(row)["trace"])
    for hidden in (GOLD, "gold_action", "secret", "reward", "user_cost", "Wrong price"):
        assert hidden not in shown
    assert row.reference == f"{GOLD}\n5"
    said = {"failure_summary": "Wrong price.", "root_cause": "see above"}
    assert row.metadata == {"source": "agentrx", "reward": 0.0, **said}


def test_passed_runs_are_presumed_clean_and_unlabelled_failures_unknown(tmp_path: Path) -> None:
    data, report = import_runs(tmp_path, [run(1, 1.0), run(2), run(3), run(4, reward=None)], [labels(2)])
    assert [(row.trace_id, row.clean, row.is_clean) for row in data] == [
        ("tau-1-0", "presumed", True),
        ("tau-2-0", "checked", False),
        ("tau-3-0", "unknown", False),
        ("tau-4-0", "unknown", False),
    ]
    assert report.counts == {"failed run without labels": 2}


def test_a_failed_run_that_a_table_has_labels_of_is_not_without_labels(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text(json.dumps([run(2), run(3)]))
    (tmp_path / "labels.csv").write_text("trace_id,category\ntau-2-0,Intent Plan Misalignment\n")
    data, report = read(tmp_path / "runs.json", labels=tmp_path / "labels.csv")
    assert [len(row.errors) for row in data] == [1, 0]
    assert report.counts["failed run without labels"] == 1
    assert report.examples["failed run without labels"][0].endswith("tau-3-0")


def test_a_folder_of_several_formats_is_refused_with_the_way_out_or_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text(json.dumps([run(2)]))
    (tmp_path / "session.json").write_text(json.dumps({"id": "s", "app_name": "a", "events": []}))
    (tmp_path / "spans.json").write_text(json.dumps({"resourceSpans": []}))
    with pytest.raises(TraceError, match=r"import each with --format NAME --out NAME\.jsonl, then the results"):
        read(tmp_path)
    data, report = read(tmp_path, "agentrx")
    assert data.ids == ("tau-2-0",)
    assert report.counts[OTHER_FORMAT] == 2
    assert report.examples[OTHER_FORMAT] == [f"{tmp_path / 'session.json'} (adk 1, otlp 1)"]
    assert RECORD not in report.counts
    with pytest.raises(TraceError, match=r"session\.json \(adk 1, otlp 1\): no agentrx"):
        read(tmp_path, "agentrx", strict=True)
    with pytest.raises(TraceError, match=r"no trail: accepted is one format at a time"):
        read(tmp_path, "trail")


def test_labels_join_the_failed_run_of_a_task(tmp_path: Path) -> None:
    runs = [run(2, 1.0, trial=0), run(2, 0.0, trial=1), run("2 ", 1.0, trial=2)]
    with pytest.raises(TraceError, match=r"labels of '77', which is no trace that was read \(1 such label\)"):
        import_runs(tmp_path, runs, [labels("2"), labels(77)])
    data, report = import_runs(tmp_path, runs, [labels("2"), labels(77)], allow_missing=True)
    assert [(row.trace_id, len(row.errors)) for row in data] == [("tau-2-0", 0), ("tau-2-1", 1), ("tau-2-2", 0)]
    assert {row.group for row in data} == {"tau-2"}
    assert report.counts == {"label of a trace that was not read, left out": 1}


def test_labels_of_several_failed_runs_need_the_runs_name(tmp_path: Path) -> None:
    runs = [run(2, trial=0), run(2, trial=1)]
    with pytest.raises(TraceError, match=r"'2' fit 'tau-2-0' and 'tau-2-1': name the run in trajectory_id"):
        import_runs(tmp_path, runs, [labels(2)])
    data, _ = import_runs(tmp_path, runs, [labels("tau-2-1")])
    assert [len(row.errors) for row in data] == [0, 1]


def test_trace_ids_without_a_trial(tmp_path: Path) -> None:
    data, _ = import_runs(tmp_path, [run("a\ud800", trial=None), run(7, trial=3)])
    assert data.ids == ("tau-a\ufffd", "tau-7-3")


def test_one_trace_id_twice(tmp_path: Path) -> None:
    data, report = import_runs(tmp_path, [run(2, 1.0), run(2, 1.0)])
    assert len(data) == 1
    assert report.counts == {"trace twice, kept once": 1}
    changed = run(2, 1.0)
    changed["traj"][1]["content"] = "other"
    with pytest.raises(TraceError, match=r"runs\.json, line 1, record 1 and, with other content, at .*record 2"):
        import_runs(tmp_path, [run(2, 1.0), changed])


def test_two_label_sets_for_one_run(tmp_path: Path) -> None:
    data, _ = import_runs(tmp_path, [run()], [labels(), labels()])
    assert len(only(data).errors) == 1
    with pytest.raises(TraceError, match=r"trajectory '2' has labels at .*record 1 and other ones at .*record 2"):
        import_runs(tmp_path, [run()], [labels(), labels(step_number=3)])


def test_awkward_messages(tmp_path: Path) -> None:
    traj: list[JSON] = [
        {"role": "user", "content": [{"type": "text", "text": "one"}, "two", {"type": "image_url"}]},
        {
            "role": "assistant",
            "content": "\ud83d\x00",
            "tool_calls": [call("a", "{bad", "x"), call("b", '["\\udc00"]', "y"), 3],
        },
        {"role": "tool", "tool_call_id": "y", "content": None},
        {"role": "tool", "tool_call_id": "zzz", "content": "lost"},
        {"role": "developer", "content": ""},
        {"role": "assistant", "tool_calls": 7},
    ]
    data, report = import_runs(tmp_path, [run(traj=traj)], [labels(step_number=3)])
    row = only(data)
    spans = row.trace.by_id
    assert len(spans) == 7
    assert spans["step-0"].inputs == "one\ntwo\n[image_url]"
    answer = spans["step-1"].outputs["messages"][0]
    assert answer["content"] == "\ufffd\ufffd"
    assert [asked["arguments"] for asked in answer["tool_calls"]] == ["{bad", ["\ufffd"], 3]
    assert (spans["step-2"].parent_id, spans["step-2"].name, spans["step-2"].inputs) == ("step-1", "b", ["\ufffd"])
    assert (spans["step-3"].parent_id, spans["step-3"].name, spans["step-3"].inputs) == ("run", "tool", None)
    assert row.errors[0].span_id == "step-2"
    assert report.counts == {"NUL or lone surrogate": 3, "tool result without its call": 1}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (run(traj=[]), "traj: is list or empty: accepted is a list of chat messages"),
        (run(traj="hello"), "traj: is str or empty"),
        (run(traj=[3]), r"traj\[0\]: accepted is a chat message with a role"),
        (run(traj=[{"role": None}]), r"traj\[0\]: accepted"),
        (run(task_id=None), "task_id: is missing"),
        (run(task_id=""), "task_id: is missing: accepted is a number or a text"),
        ({"traj_": 1}, "not a tau-bench run: accepted is"),
        (3, "not a tau-bench run"),
    ],
)
def test_bad_runs_name_file_record_and_field(tmp_path: Path, record: JSON, message: str) -> None:
    with pytest.raises(TraceError, match=rf"runs\.json, line 1, record 2.*{message}"):
        import_runs(tmp_path, [run(1, 1.0), record])
    data, report = import_runs(tmp_path, [run(1, 1.0), record], strict=False)
    assert data.ids == ("tau-1-0",)
    assert report.counts == {RECORD: 1}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"trajectory_id": 2, "failures": {}}, "no AgentRx labels: accepted is"),
        ({"trajectory_id": 2}, "no AgentRx labels"),
        (labels(2) | {"failures": ["text"]}, "failure 1: is str: accepted is"),
    ],
)
def test_bad_labels_name_file_and_record(tmp_path: Path, found: JSON, message: str) -> None:
    with pytest.raises(TraceError, match=rf"labels\.json, line 1, record 1.*{message}"):
        import_runs(tmp_path, [run()], [found])
    data, report = import_runs(tmp_path, [run()], [found, labels(3)], strict=False, allow_missing=True)
    assert only(data).clean == "unknown"  # a label was lost, so the run is not known to be clean
    assert sum(report.counts.get(kind, 0) for kind in (RECORD, LABEL)) == 1


def test_an_unknown_category_is_counted(tmp_path: Path) -> None:
    data, report = import_runs(tmp_path, [run()], [labels(failure_category="Bad vibes", failed_agent=[3])])
    assert (only(data).errors[0].category, only(data).errors[0].dimensions) == ("Bad vibes", ())
    assert report.counts == {"category that the taxonomy does not have, so of no dimension": 1}


def test_the_real_runs(shared_data: Path) -> None:
    folder = shared_data / "agentrx_tau"
    data, report = read(folder)
    again, _ = read([folder / "failed_runs.json", folder / "passed_runs.json"], labels=folder / "ground_truth.json")
    assert again.hash == data.hash
    failures = [row for row in data if row.errors]
    assert (len(failures), len(data) - len(failures)) == (15, 37)
    assert all(row.is_clean and row.clean == "presumed" for row in data if not row.errors)
    assert report.counts == {OTHER_FILE: 2, HIDDEN_ERROR: 17}, "the two licences; tools that answered 'Error: ...'"
    errors = [(row, error) for row in failures for error in row.errors]
    assert len(errors) == 19
    for row, error in errors:
        assert error.span_id is not None
        blames_the_user = error.category == "Underspecified User Intent"
        assert (row.trace.by_id[error.span_id].name == "user") == blames_the_user
        assert (row.trace.by_id[error.span_id].kind is SpanKind.LLM) != blames_the_user
        assert (error.dimensions == ()) == blames_the_user
    assert sum(error.dimensions == () for _, error in errors) == 5
    assert sum(error.impact is Impact.HIGH for _, error in errors) == 15


def test_nothing_of_the_real_answers_reaches_a_trace(shared_data: Path) -> None:
    folder = shared_data / "agentrx_tau"
    data, _ = read(folder)
    runs = [run for name in ("failed", "passed") for run in json.loads((folder / f"{name}_runs.json").read_text())]
    hidden = 0
    for record in runs:
        row = data[f"tau-{record['task_id']}-{record['trial']}"]
        shown = json.dumps(to_json(row)["trace"], ensure_ascii=False)
        chat = json.dumps(json.loads(json.dumps(record["traj"])), ensure_ascii=False)
        task = record["info"]["task"]
        assert task["instruction"] not in shown
        for key in ("reward", "user_cost", "instruction", "r_outputs", "gt_data_hash", "trajectory_id", '"records"'):
            assert key not in shown or key in chat
        for output in task["outputs"]:
            # An answer may be said in the chat itself; one that is only in the answer's place must not be shown.
            if output not in chat:
                hidden += 1
                assert output not in shown
        for action in task["actions"]:
            assert json.dumps(action, ensure_ascii=False) not in shown
        assert row.reference == ("\n".join(task["outputs"]) or None)
    assert hidden > 0
