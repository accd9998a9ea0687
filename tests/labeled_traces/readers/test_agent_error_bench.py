from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, to_json
from labeled_traces.label import Impact, ScoreLabel
from labeled_traces.readers import read
from labeled_traces.readers.agent_error_bench import REPEATED
from labeled_traces.readers.report import LABEL, RECORD, ReadReport
from labeled_traces.trace import JSON, TraceError

NAME = "GPT-4o_007_memory_b000_t00_e08-f572f2ad"
TEMPLATE = (
    "You are an expert research assistant.\n\nTask: Which nano-compound is studied?\n\n"
    "Available tools:\nTool: google_search\nDescription: searches the web for a text.\n\n"
)
FOUND = '{\n"title": "Formation of Nano-Bio-Complex",\n"link": "https://x.org/srep00406",\n"snippet": "Since 2012"\n}'


def run(**metadata: JSON) -> dict[str, JSON]:
    act = "<plan>\nI search first, for the right proceedings of the conference.\n</plan>\n<action>\ntool: s\n</action>"
    again = (
        f"{TEMPLATE}You took 1 step: [Observation 1: {FOUND}, Action 1: {act}]\nCurrent observation:\n{FOUND}\nGo on."
    )
    return {
        "messages": [
            {"role": "user", "content": f"{TEMPLATE}Current observation: Start."},
            {"role": "assistant", "content": act},
            {"role": "user", "content": again},
            {"role": "assistant", "content": "<answer>gold</answer>"},
        ],
        "metadata": {"model": "gpt-4o", "steps": 2, "won": False, "environment": "gaia", "pid": "unknown", **metadata},
    }


def label(trajectory_id: str = NAME, step: JSON = 2, module: str = "planning", **detail: JSON) -> dict[str, JSON]:
    said = {"failure_type": "inefficient_plan", "reasoning": "Searches again.", **detail}
    return {
        "trajectory_id": trajectory_id,
        "LLM": "GPT-4o",
        "task_type": "gaia",
        "critical_failure_step": step,
        "critical_failure_module": module,
        "step_annotations": [{"step": step, module: said}],
    }


def write(path: Path, value: JSON) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def imported(tmp_path: Path, *labels: JSON, name: str = NAME, strict: bool = True) -> tuple[Dataset, ReadReport]:
    trajectory = write(tmp_path / "GAIA" / f"{name}.json", run())
    return read(trajectory, labels=write(tmp_path / "labels.json", list(labels)), strict=strict)


def test_the_published_folder_is_read_as_a_whole(tmp_path: Path) -> None:
    write(tmp_path / "Original_Failure_Trajectory" / "GAIA" / f"{NAME}.json", run())
    write(tmp_path / "Label" / "gaia_labels.json", [label()])
    (row,), _ = read(tmp_path, strict=True)
    assert (row.trace_id, row.clean, row.raters) == (NAME, "partial", ())
    assert row.scores == (ScoreLabel("goal_fulfillment", 0, "AgentErrorBench"),)
    assert row.metadata["environment"] == "gaia"


def test_steps_count_the_agents_messages_from_one(tmp_path: Path) -> None:
    for step, span_id in ((1, "step-1"), (2, "step-3"), ("2", "step-3"), (3, None), (0, None), (None, None)):
        data, report = imported(tmp_path, label(step=step))
        (error,) = data[NAME].errors
        assert error.span_id == span_id
        assert len(report.unjoined) == (span_id is None)
    assert (error.impact, error.rater) == (Impact.HIGH, "AgentErrorBench")
    assert error.description == "Searches again."
    assert error.dimensions == ("plan_quality", "execution_efficiency")


@pytest.mark.parametrize(
    ("module", "said", "category", "dimensions"),
    [
        ("action", "Parameter_error", "parameter_error", ("tool_calling",)),
        ("system", "tool_execution_error ", "tool_execution_error", ("tool_calling",)),
        ("system", "llm_limit", "llm_limit", ()),
        ("plan", "", "planning", ("plan_quality",)),
        ("reflection", None, "reflection", ("logical_consistency",)),
        ("memory", "hallucination", "hallucination", ("logical_consistency",)),
        ("reflection", "outcome_misinterpretation", "outcome_misinterpretation", ("tool_calling",)),
        ("action", "misalignment", "misalignment", ("plan_adherence",)),
    ],
)
def test_spellings_of_types(
    tmp_path: Path, module: str, said: JSON, category: str, dimensions: tuple[str, ...]
) -> None:
    data, report = imported(tmp_path, label(module=module, failure_type=said))
    (error,) = data[NAME].errors
    assert (error.category, error.dimensions) == (category, dimensions)
    assert report.unmapped == {}


def test_a_prompt_shows_only_what_is_new_and_says_what_stands_above(tmp_path: Path) -> None:
    data, report = imported(tmp_path, label())
    spans = data[NAME].trace.by_id
    assert spans["run"].inputs == "Which nano-compound is studied?"
    assert spans["step-0"].inputs == run()["messages"][0]["content"]
    again = spans["step-2"].inputs
    assert again.count("lines that stand above") == 3, "the template, what the agent did, what it has just been shown"
    assert "Available tools" not in again
    assert again.count("srep00406") == 1
    assert again.endswith("Go on.")
    assert report.counts == {REPEATED: 1}
    assert spans["step-3"].attributes == {"llm.model_name": "gpt-4o"}


@pytest.mark.parametrize(
    ("prompt", "goal"),
    [
        (
            "You play.\nYour task is to: put a mug in a cabinet.\nYour current observation is: a room",
            "put a mug in a cabinet.",
        ),
        ("Task: Fill the table:\n\n|a|\n|b|\n\nAvailable Tools:\nTool: x", "Fill the table:\n\n|a|\n|b|"),
        ("Buy a red shirt.", "Buy a red shirt."),
    ],
)
def test_the_goal_is_the_task_alone(tmp_path: Path, prompt: str, goal: str) -> None:
    log = {"messages": [{"role": "user", "content": prompt}], "metadata": {"won": False}}
    (row,), _ = read(write(tmp_path / "x.json", log))
    assert row.trace.by_id["run"].inputs == goal


def test_short_repetitions_stay(tmp_path: Path) -> None:
    log = {"messages": [{"role": "user", "content": "a\nb\nc\nd"}] * 2, "metadata": {"won": False}}
    (row,), report = read(write(tmp_path / "GAIA" / "x.json", log))
    assert [span.inputs for span in row.trace.spans if span.name == "user"] == ["a\nb\nc\nd"] * 2
    assert report.counts == {"failed run without labels": 1}
    assert row.clean == "unknown"


def test_the_outcome_and_the_labels_stay_out_of_the_trace(tmp_path: Path) -> None:
    data, report = imported(tmp_path, label())
    shown = json.dumps(to_json(data[NAME])["trace"])
    for hidden in ("won", "Searches again", "inefficient_plan", "critical"):
        assert hidden not in shown
    assert report.stripped == {"metadata.won": 1}


def test_an_annotation_of_the_critical_step_is_no_second_label(tmp_path: Path) -> None:
    given = label()
    given["step_annotations"] *= 2
    given["step_annotations"].append({"step": 1, "action": {"failure_type": "format_error", "reasoning": "x"}})
    data, _ = imported(tmp_path, given)
    assert [(error.span_id, error.category, error.impact) for error in data[NAME].errors] == [
        ("step-3", "inefficient_plan", Impact.HIGH),
        ("step-1", "format_error", Impact.MEDIUM),
    ]
    bare = {**label(), "step_annotations": []}
    (error,) = imported(tmp_path, bare)[0][NAME].errors
    assert (error.span_id, error.category) == ("step-3", "planning")


def test_one_label_set_twice_counts_once_and_two_are_an_error(tmp_path: Path) -> None:
    assert len(imported(tmp_path, label(), label())[0][NAME].errors) == 1
    with pytest.raises(TraceError, match=rf"trajectory '{NAME}' has labels at .*record 1 and other ones at .*record 2"):
        imported(tmp_path, label(), label(step=1))


def test_labels_join_by_model_and_number_where_only_one_fits(tmp_path: Path) -> None:
    other = label("GPT-4o_007_with_another_tail")
    assert len(imported(tmp_path, other)[0][NAME].errors) == 1
    for labels in ((label("GPT-4o_008_x"),), (other, label("GPT-4o_007_third"))):
        with pytest.raises(TraceError, match="which is no trace that was read"):
            imported(tmp_path, *labels)


def test_rows_of_the_published_table_hold_their_labels(tmp_path: Path) -> None:
    table = {**label(), "full_trajectory": json.dumps(run())}
    (row,), _ = read(write(tmp_path / "rows.json", [table]), strict=True)
    assert (row.trace_id, row.errors[0].span_id) == (NAME, "step-3")
    with pytest.raises(TraceError, match="full_trajectory: is str: accepted is"):
        read(write(tmp_path / "rows.json", [{**table, "full_trajectory": "text"}]), strict=True)


def test_a_run_that_won_has_no_score_and_other_runs_of_its_task_are_one_group(tmp_path: Path) -> None:
    write(tmp_path / "GAIA" / "Qwen3-8B_001_x.json", run(won=True))
    write(tmp_path / "labels.json", [label("Qwen3-8B_001_x"), label()])
    write(tmp_path / "GAIA" / f"{NAME}.json", run())
    data, _ = read(tmp_path)
    assert data["Qwen3-8B_001_x"].scores == ()
    assert len({row.group for row in data}) == 1


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"messages": [], "metadata": {"won": False}},
            "messages: is list or empty: accepted is a list of chat messages",
        ),
        ({"messages": [3], "metadata": {"won": False}}, r"messages\[0\]: accepted is a chat message with a role"),
        ({"other": 1}, "not a run of AgentErrorBench: accepted is"),
    ],
)
def test_bad_runs_name_file_and_field(tmp_path: Path, record: JSON, message: str) -> None:
    lines = [json.dumps({**run(), "trajectory_id": "good"}), json.dumps(record)]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(TraceError, match=rf"a\.jsonl, line 2.*{message}"):
        read(path, "agent_error_bench", strict=True)
    data, report = read(path, "agent_error_bench")
    assert data.ids == ("good",)
    assert report.counts[RECORD] == 1


def test_an_annotation_without_a_module_is_left_out_and_the_critical_step_stays(tmp_path: Path) -> None:
    given = {**label(), "step_annotations": [{"step": 2}, 3]}
    with pytest.raises(TraceError, match="annotation 1: names no module: accepted is"):
        imported(tmp_path, given)
    data, report = imported(tmp_path, given, strict=False)
    assert [error.span_id for error in data[NAME].errors] == ["step-3"]
    assert report.counts[LABEL] == 2
