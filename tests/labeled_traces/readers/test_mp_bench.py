from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, to_json
from labeled_traces.label import Impact
from labeled_traces.readers import read
from labeled_traces.readers.report import LABEL, RECORD, ReadReport
from labeled_traces.trace import JSON, TraceError

GOLD = "gold-answer-4711"
TURNS = [("Planner", "Let us guess."), ("Computer_terminal", "4"), ("Checker", "It is 4.")]


def marked(*steps: int, category: str = "Planning Errors", **fields: JSON) -> dict[str, JSON]:
    """What one person said of a run, with its log."""
    history = [
        {
            "content": content,
            "role": role,
            "step": str(step),
            "fail_annotation": "1" if step in steps else "0",
            "fail_category": category if step in steps else "",
            "fail_reason": "It is a guess." if step in steps else "",
            "ideal_action": "Ask first." if step in steps else "",
        }
        for step, (role, content) in enumerate(TURNS)
    ]
    return {
        "is_correct": False,
        "question": "How many?",
        "ground_truth": GOLD,
        "history": history,
        "system_prompt": {"Planner": "You plan."},
        **fields,
    }


def beside(log: str = "https://github.com/x/y/tree/main/Who%26When/Algorithm-Generated/1.json") -> dict[str, JSON]:
    """What one person said of a run, without its log."""
    step = {"step": "2", "fail_annotation": "1", "fail_category": "Verification Errors", "fail_reason": "No check."}
    return {"log_source": log, "annotation": [{"step": "0", "fail_annotation": "0"}, step]}


def blamed(**fields: JSON) -> dict[str, JSON]:
    """The same run in Who&When."""
    log = [{"role": "user", "name": role, "content": content} for role, content in TURNS]
    label = {"mistake_agent": "Planner", "mistake_step": "0", "mistake_reason": "Guesses."}
    prompts = {"system_prompt": {"Planner": "You plan."}}
    return {"history": log, "question": "How many?", "question_ID": "q-1", **label, **prompts, **fields}


def write(path: Path, value: JSON) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def imported(tmp_path: Path, *said: JSON, strict: bool = True) -> tuple[Dataset, ReadReport]:
    """One run, as annotators 1, 2 ... have it."""
    for number, record in enumerate(said, 1):
        write(tmp_path / "annotated" / str(number) / "manual" / "7.json", record)
    return read(tmp_path / "annotated", strict=strict)


def test_three_annotators_of_one_run_are_three_raters_of_one_trace(tmp_path: Path) -> None:
    data, report = imported(tmp_path, marked(0), marked(0, 2), marked())
    assert data.ids == ("mp-manual-7",)
    row = data["mp-manual-7"]
    assert row.raters == ("MP-Bench 1", "MP-Bench 2", "MP-Bench 3"), "also who marked nothing"
    assert [(error.rater, error.span_id) for error in row.errors] == [
        ("MP-Bench 1", "step-0"),
        ("MP-Bench 2", "step-0"),
        ("MP-Bench 2", "step-2"),
    ]
    assert len(row.distinct_errors) == 2
    assert {(error.category, error.dimensions, error.impact) for error in row.errors} == {
        ("Planning Errors", ("plan_quality",), Impact.MEDIUM)
    }
    assert row.errors[0].description == "It is a guess.\nBetter: Ask first."
    assert (row.clean, report.counts) == ("checked", {})
    assert not row.is_clean_of(("goal_fulfillment",)), "the run failed"


def test_runs_of_one_number_in_two_parts_are_two_traces(tmp_path: Path) -> None:
    for split in ("manual", "automatic"):
        write(tmp_path / "1" / split / "7.json", marked(0, question=f"{split}?"))
    data, _ = read(tmp_path, strict=True)
    assert sorted(data.ids) == ["mp-automatic-7", "mp-manual-7"]
    assert len({row.group for row in data}) == 2
    write(tmp_path / "1" / "automatic" / "7.json", marked(0, question="manual?", system_prompt={}))
    assert len({row.group for row in read(tmp_path, strict=True)[0]}) == 1, "another team, the same question"


def test_a_file_that_stands_twice_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "copy" / "1" / "manual" / "7.json", marked(0))
    write(tmp_path / "first" / "1" / "manual" / "7.json", marked(0))
    (row,), _ = read(tmp_path, strict=True)
    assert len(row.errors) == 1
    write(tmp_path / "copy" / "1" / "manual" / "7.json", marked(2))
    with pytest.raises(TraceError, match="other labels of 'MP-Bench 1' for 'mp-manual-7' than those read before"):
        read(tmp_path, strict=True)


def test_annotators_of_two_logs_do_not_mix(tmp_path: Path) -> None:
    other = marked(0)
    other["history"][0]["content"] = "another log"
    with pytest.raises(TraceError, match="trace 'mp-manual-7': two runs with one id and other content"):
        imported(tmp_path, marked(0), other)


def test_the_answer_and_the_annotations_stay_out_of_the_trace(tmp_path: Path) -> None:
    data, report = imported(tmp_path, marked(0))
    shown = json.dumps(to_json(data["mp-manual-7"])["trace"])
    for hidden in (GOLD, "fail_", "It is a guess", "Ask first", "is_correct"):
        assert hidden not in shown
    assert data["mp-manual-7"].reference == GOLD
    assert report.stripped["history.ideal_action"] == 3
    assert report.stripped["ground_truth"] == 1


def test_a_model_s_summary_of_the_annotations_is_not_read(tmp_path: Path) -> None:
    summary = {"question": "How many?", "ground_truth": GOLD, "final_fail_annotations": {"0": {}}}
    write(tmp_path / "annotated" / "unified_gpt-5.1" / "manual" / "7.json", summary)
    (row,), report = imported(tmp_path, marked(0), strict=False)
    assert row.raters == ("MP-Bench 1",)
    assert "unified_gpt-5.1" in "".join(report.lines())


def test_published_labels_join_the_runs_of_who_and_when(tmp_path: Path) -> None:
    run = write(tmp_path / "Who&When" / "Algorithm-Generated" / "1.json", blamed())
    for number in (1, 2):
        write(tmp_path / "MP-Bench" / str(number) / "automatic" / "3.json", beside())
    (row,), report = read(run, "mp_bench", labels=tmp_path / "MP-Bench", strict=True)
    assert (row.trace_id, row.group) == ("ag-q-1", "question q-1")
    assert [(error.rater, error.span_id, error.dimensions) for error in row.errors] == [
        ("Who&When", "step-0", ("goal_fulfillment",)),
        ("MP-Bench 1", "step-2", ("logical_consistency",)),
        ("MP-Bench 2", "step-2", ("logical_consistency",)),
    ]
    assert (row.raters, row.clean, report.counts) == (("MP-Bench 1", "MP-Bench 2"), "checked", {})


def test_a_run_with_its_log_has_the_content_of_who_and_whens(tmp_path: Path) -> None:
    (own,), _ = read(write(tmp_path / "blamed.json", blamed()), strict=True)
    assert imported(tmp_path, marked(0))[0]["mp-manual-7"].trace.content_hash == own.trace.content_hash


def test_labels_of_logs_that_were_not_read_are_refused_or_listed(tmp_path: Path) -> None:
    run = write(tmp_path / "Algorithm-Generated" / "1.json", blamed())
    labels = write(tmp_path / "1" / "manual" / "3.json", beside("https://x/y/console_log.txt"))
    with pytest.raises(TraceError, match=r"labels of 'y/console_log.txt', which is no trace that was read"):
        read(run, "mp_bench", labels=labels)
    (row,), report = read(run, "mp_bench", labels=labels, allow_missing=True)
    assert [error.rater for error in row.errors] == ["Who&When"]
    assert report.unjoined[0]["labels"] == 1


@pytest.mark.parametrize(("step", "span_id"), [("2", "step-2"), (0, "step-0"), ("3", None), (None, None)])
def test_steps_count_from_zero(tmp_path: Path, step: JSON, span_id: str | None) -> None:
    run = write(tmp_path / "Algorithm-Generated" / "1.json", blamed())
    given = beside()
    given["annotation"][1]["step"] = step
    (row,), report = read(run, "mp_bench", labels=write(tmp_path / "1" / "automatic" / "3.json", given))
    assert row.errors[1].span_id == span_id
    assert len(report.unjoined) == (span_id is None)


@pytest.mark.parametrize(
    ("category", "dimensions"),
    [
        ("Tool/Agent Invocation Errors", ("tool_calling", "tool_selection")),
        ("verification error", ("logical_consistency",)),
        ("Communication Errors ", ("logical_consistency",)),
        ("", ("goal_fulfillment",)),
    ],
)
def test_spellings_of_categories(tmp_path: Path, category: str, dimensions: tuple[str, ...]) -> None:
    data, report = imported(tmp_path, marked(0, category=category))
    assert data["mp-manual-7"].errors[0].dimensions == dimensions
    assert report.unmapped == {}


def test_an_unknown_category_is_counted(tmp_path: Path) -> None:
    assert imported(tmp_path, marked(0, category="Memory Errors"))[1].unmapped == {"Memory Errors": 1}


def test_a_mark_that_is_none_is_left_out_and_its_rater_has_not_read_the_run(tmp_path: Path) -> None:
    odd = marked(0)
    odd["history"][2]["fail_annotation"] = "maybe"
    with pytest.raises(
        TraceError, match=r"7\.json.*step 2: no annotation: accepted is \{step, fail_annotation: 0 or 1"
    ):
        imported(tmp_path, odd)
    data, report = imported(tmp_path, odd, strict=False)
    assert (data["mp-manual-7"].raters, data["mp-manual-7"].clean, report.counts[LABEL]) == ((), "partial", 1)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"history": []}, "not a run of MP-Bench: accepted is"),
        (marked(0), "who annotated is unknown: accepted are files <annotator>/<manual or automatic>/<run>.json"),
        (marked(0, history=[{"fail_annotation": "1"}], annotator="a"), r"history\[0\]: accepted is a message"),
        (3, "not a run of MP-Bench"),
    ],
)
def test_bad_records_name_file_and_field(tmp_path: Path, record: JSON, message: str) -> None:
    path = write(tmp_path / "a.json", [marked(0, annotator=1), record])
    with pytest.raises(TraceError, match=rf"a\.json, line 1, record 2.*{message}"):
        read(path, "mp_bench", strict=True)
    data, report = read(path, "mp_bench")
    assert data["mp-a"].raters == ("MP-Bench 1",)
    assert report.counts[RECORD] == 1
