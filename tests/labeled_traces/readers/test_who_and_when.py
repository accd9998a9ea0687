from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace, to_json
from labeled_traces.label import Impact, ScoreLabel
from labeled_traces.readers import read
from labeled_traces.readers.report import RECORD, ReadReport
from labeled_traces.trace import JSON, TraceError

GOLD = "gold-answer-4711"
QUESTION = "How many houses face east?"


def generated(**fields: JSON) -> dict[str, JSON]:
    """A run as CaptainAgent logs it."""
    return {
        "is_correct": False,
        "question": QUESTION,
        "question_ID": "q-1",
        "level": "2",
        "ground_truth": GOLD,
        "history": [
            {"role": "assistant", "name": "Excel_Expert", "content": "```python\nprint(4)\n```"},
            {"role": "user", "name": "Computer_terminal", "content": "exitcode: 0\n4"},
            {"role": "user", "name": "Checker", "content": "It is 4."},
            {"role": "user", "name": "Checker", "content": "TERMINATE"},
        ],
        "mistake_agent": "Excel_Expert",
        "mistake_step": "0",
        "mistake_reason": "Counts the wrong houses.",
        "system_prompt": {"Excel_Expert": "You know tables.", "Checker": "You check.", "Of_Another_Run": None},
        **fields,
    }


def magentic_log() -> list[JSON]:
    return [
        {"role": "human", "content": QUESTION},
        {"role": "Orchestrator (thought)", "content": "Initial plan: look it up."},
        {"role": "Orchestrator (-> WebSurfer)", "content": "Search for the houses."},
        {"role": "Orchestrator (thought)", "content": "Next speaker WebSurfer"},
        {"role": "WebSurfer", "content": "I typed houses."},
        {"role": "Orchestrator (-> ComputerTerminal)", "content": "Run it."},
        {"role": "ComputerTerminal", "content": "4"},
        {"role": "Orchestrator (termination condition)", "content": "FINAL ANSWER: 4"},
    ]


def crafted(**fields: JSON) -> dict[str, JSON]:
    """A run as Magentic-One logs it."""
    return {
        "history": magentic_log(),
        "question": QUESTION,
        "question_ID": "q-1",
        "ground_truth": GOLD,
        "is_corrected": False,
        "mistake_agent": "WebSurfer",
        "mistake_step": "4",
        "mistake_reason": "Searches for the wrong thing.",
        **fields,
    }


def failures(trajectory_id: str = "q-1", **fields: JSON) -> dict[str, JSON]:
    """AgentRx's labels of the run of Magentic-One."""
    failure = {"failure_id": 1, "step_number": 2, "failure_category": "Intent Plan Misalignment", "failed_agent": "x"}
    second = {**failure, "failure_id": 2, "step_number": 5, "failure_category": "Invention of new information"}
    root = {"failure_id": "2"}
    return {"trajectory_id": trajectory_id, "failures": [failure, second], "root_cause": root, **fields}


def write(path: Path, value: JSON) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def imported(tmp_path: Path, *records: JSON, strict: bool = True) -> tuple[Dataset, ReadReport]:
    return read([write(tmp_path / f"{number}.json", record) for number, record in enumerate(records)], strict=strict)


def only(tmp_path: Path, record: JSON) -> LabeledTrace:
    (row,) = imported(tmp_path, record)[0]
    return row


def test_a_team_of_experts(tmp_path: Path) -> None:
    row = only(tmp_path, generated())
    assert (row.trace_id, row.group, row.clean, row.raters) == ("ag-q-1", "question q-1", "partial", ())
    assert [(one.span_id, one.parent_id, one.name, str(one.kind)) for one in row.trace.spans] == [
        ("run", None, "team", "AGENT"),
        ("step-0", "run", "Excel_Expert", "LLM"),
        ("step-1", "step-0", "Computer_terminal", "TOOL"),
        ("step-2", "run", "Checker", "LLM"),
        ("step-3", "run", "Checker", "LLM"),
    ]
    root = row.trace.by_id["run"]
    assert root.inputs == {"task": QUESTION, "agents": {"Excel_Expert": "You know tables.", "Checker": "You check."}}
    assert root.outputs == "It is 4."
    assert row.trace.by_id["step-1"].outputs == "exitcode: 0\n4"


def test_sub_agents_answer_below_who_asked_them(tmp_path: Path) -> None:
    row = only(tmp_path, crafted())
    assert [(one.parent_id, one.name, str(one.kind)) for one in row.trace.spans] == [
        (None, "team", "AGENT"),
        ("run", "human", "CHAIN"),
        ("run", "Orchestrator (thought)", "LLM"),
        ("run", "Orchestrator (-> WebSurfer)", "LLM"),
        ("step-2", "WebSurfer", "AGENT"),
        ("run", "Orchestrator (thought)", "LLM"),
        ("run", "Orchestrator (-> ComputerTerminal)", "LLM"),
        ("step-5", "ComputerTerminal", "TOOL"),
        ("run", "Orchestrator (termination condition)", "LLM"),
    ]
    assert (row.trace.by_id["run"].inputs, row.trace.by_id["run"].outputs) == (QUESTION, "FINAL ANSWER: 4")


def test_steps_count_from_zero_and_the_error_is_why_the_goal_was_missed(tmp_path: Path) -> None:
    row = only(tmp_path, crafted())
    (error,) = row.errors
    assert error.span_id == "step-4"
    assert (error.category, error.dimensions) == ("Decisive Error", ("goal_fulfillment",))
    assert (error.impact, error.rater) == (Impact.HIGH, "Who&When")
    assert error.description == "WebSurfer: Searches for the wrong thing."
    assert row.scores == (ScoreLabel("goal_fulfillment", 0, "Who&When"),)
    (typed,) = only(tmp_path, crafted(mistake_type="wrong_reasoning")).errors
    assert typed.description == "WebSurfer: wrong_reasoning: Searches for the wrong thing."


def test_no_finding_on_a_run_with_one_named_step_is_a_false_alarm(tmp_path: Path) -> None:
    row = only(tmp_path, crafted())
    assert not row.is_clean_of(("logical_consistency",))
    assert not row.can_judge("logical_consistency")
    assert not row.can_judge("goal_fulfillment")


@pytest.mark.parametrize(
    ("step", "span_id"), [("0", "step-0"), (7, "step-7"), ("8", None), ("-1", None), ("", None), (None, None)]
)
def test_steps_at_and_beyond_the_ends(tmp_path: Path, step: JSON, span_id: str | None) -> None:
    data, report = imported(tmp_path, crafted(mistake_step=step, mistake_agent="Orchestrator"))
    assert data["q-1"].errors[0].span_id == span_id
    assert [one["trace_id"] for one in report.unjoined] == ([] if span_id else ["q-1"])


def test_another_agent_at_the_labelled_step_is_reported_and_the_label_kept(tmp_path: Path) -> None:
    data, report = imported(tmp_path, crafted(mistake_agent="FileSurfer"))
    assert data["q-1"].errors[0].span_id == "step-4"
    assert report.counts == {"label of another agent than the one that acts at its step": 1}
    for agent, step in (("Websurfer", "4"), ("Orchestrator", "1"), ("Orchestrator", "2")):
        assert imported(tmp_path, crafted(mistake_agent=agent, mistake_step=step))[1].counts == {}


def test_the_answer_and_the_label_stay_out_of_the_trace(tmp_path: Path) -> None:
    data, report = imported(tmp_path, generated())
    row = data["ag-q-1"]
    shown = json.dumps(to_json(row)["trace"])
    for hidden in (GOLD, "Counts the wrong", "mistake", "is_correct"):
        assert hidden not in shown
    assert row.reference == GOLD
    assert only(tmp_path, generated(ground_truth=None, groundtruth=5)).reference == "5"
    stripped = ("is_correct", "level", "ground_truth", "mistake_agent", "mistake_step", "mistake_reason")
    assert dict(report.stripped) == dict.fromkeys(stripped, 1)


def test_two_parts_of_one_question_are_two_traces_of_one_group(tmp_path: Path) -> None:
    data, _ = imported(tmp_path, crafted(), generated())
    assert data.ids == ("q-1", "ag-q-1")
    assert {row.group for row in data} == {"question q-1"}


def agentrx_run(tmp_path: Path) -> Path:
    return write(tmp_path / "runs" / "q-1.json", magentic_log())


def test_two_teams_of_one_run_are_one_trace_with_two_raters_whichever_is_read_first(tmp_path: Path) -> None:
    run, labels = agentrx_run(tmp_path), write(tmp_path / "labels.json", [failures()])
    blamed = write(tmp_path / "blamed.json", crafted())
    first, report = read(run, labels=[labels, blamed], strict=True)
    second, _ = read(blamed, labels=labels, strict=True)
    (row,) = first
    assert report.counts == {}
    assert row.trace == second["q-1"].trace
    assert row.errors == second["q-1"].errors
    assert [(error.rater, error.span_id, error.dimensions) for error in row.errors] == [
        ("AgentRx", "step-1", ("plan_quality",)),
        ("AgentRx", "step-4", ("logical_consistency",)),
        ("Who&When", "step-4", ("goal_fulfillment",)),
    ]
    assert (row.clean, row.raters, row.reference) == ("checked", ("AgentRx",), GOLD)
    assert {score.rater for score in row.scores} == {"AgentRx", "Who&When"}


def test_two_teams_of_one_run_read_apart_have_one_id_and_one_group(tmp_path: Path) -> None:
    apart, _ = read(agentrx_run(tmp_path), labels=write(tmp_path / "labels.json", [failures()]), strict=True)
    (own,) = imported(tmp_path, crafted())[0]
    assert (apart["q-1"].trace, apart["q-1"].group) == (own.trace, own.group)


def test_a_root_cause_whose_number_is_a_text_is_found(tmp_path: Path) -> None:
    data, report = read(agentrx_run(tmp_path), labels=write(tmp_path / "labels.json", [failures()]), strict=True)
    assert [error.impact for error in data["q-1"].errors] == [Impact.MEDIUM, Impact.HIGH]
    assert report.counts == {}


def test_a_failed_run_is_not_clean_of_goal_fulfillment(tmp_path: Path) -> None:
    data, _ = read(agentrx_run(tmp_path), labels=write(tmp_path / "labels.json", [failures()]))
    assert not data["q-1"].is_clean_of(("goal_fulfillment",))
    assert data["q-1"].is_clean_of(("tool_calling",))


def test_labels_of_runs_that_are_not_there_are_refused_or_listed(tmp_path: Path) -> None:
    labels = write(tmp_path / "labels.json", [failures(), failures("q-9")])
    own, other = write(tmp_path / "own.json", crafted()), write(tmp_path / "other.json", crafted(question_ID="q-7"))
    for source, beside in ((own, [labels]), (agentrx_run(tmp_path), [labels, other])):
        with pytest.raises(TraceError, match=r"labels of 'q-9', which is no trace that was read"):
            read(source, labels=beside)
        data, report = read(source, labels=beside, allow_missing=True)
        assert data.ids == ("q-1",)
        missing = ["q-9", "q-7"][: len(beside)]
        assert [one["trace_id"] for one in report.unjoined] == missing


def test_a_run_of_other_content_takes_no_labels(tmp_path: Path) -> None:
    other = crafted()
    other["history"][1]["content"] = "another plan"
    blamed = write(tmp_path / "blamed.json", other)
    with pytest.raises(TraceError, match="trace 'q-1': two runs with one id and other content"):
        read(agentrx_run(tmp_path), labels=[write(tmp_path / "l.json", [failures()]), blamed], strict=True)


def test_a_broken_turn_of_a_log_leaves_out_the_run(tmp_path: Path) -> None:
    run = write(tmp_path / "runs" / "q-1.json", [*magentic_log(), {"content": "who?"}])
    with pytest.raises(TraceError, match=r"q-1\.json, message\[8\]: accepted is a message with a role or a name"):
        read(run, strict=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"question_ID": None}, "question_ID: is missing: accepted is a text"),
        ({"question_ID": " "}, "question_ID: is missing"),
        ({"history": []}, "history: is list or empty: accepted is a list of messages"),
        ({"history": [3]}, r"history\[0\]: accepted is a message with a role or a name"),
        ({"history": [{"role": None, "content": "x"}]}, r"history\[0\]: accepted"),
    ],
)
def test_bad_records_name_file_and_field(tmp_path: Path, fields: JSON, message: str) -> None:
    with pytest.raises(TraceError, match=rf"1\.json, line 1.*{message}"):
        imported(tmp_path, crafted(), generated(**fields))
    data, report = imported(tmp_path, crafted(), generated(**fields), strict=False)
    assert data.ids == ("q-1",)
    assert report.counts == {RECORD: 1}


def test_a_users_own_table_holds_for_both_teams(tmp_path: Path) -> None:
    table = tmp_path / "mine.yaml"
    lines = ["Decisive Error", "Intent Plan Misalignment", "Invention of new information"]
    table.write_text("categories:\n" + "".join(f"  {line}:\n    dimensions: [plan_quality]\n" for line in lines))
    labels = write(tmp_path / "labels.json", [failures()])
    (row,), _ = read(write(tmp_path / "blamed.json", crafted()), labels=labels, taxonomy=table)
    assert {error.dimensions for error in row.errors} == {("plan_quality",)}
