from __future__ import annotations

from dataclasses import replace

import pytest

from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.chat import Turn, add_raters, chat_spans, speaker_of, step_span, team_spans, turns_of
from labeled_traces.taxonomy import load_taxonomy
from labeled_traces.trace import JSON, Trace, TraceError

OPTIONS = ReadOptions(load_taxonomy("trail"))


def team(*speakers: str, goal: JSON = "Find it.") -> Trace:
    return Trace("t", tuple(team_spans([Turn(speaker, f"{speaker} says") for speaker in speakers], goal)))


def test_tools_stand_once_with_the_agents_first_message() -> None:
    messages = [{"role": "user", "content": "hi"}, *2 * [{"role": "assistant", "content": "hello"}]]
    schema = {"name": "search", "parameters": {}}
    spans = chat_spans(messages, "messages", "x", OPTIONS, [schema])
    assert [span.inputs for span in spans] == ["hi", "hi", {"messages": [], "tools": [schema]}, None]


def test_a_sub_agent_answers_the_last_who_asked_it() -> None:
    trace = team("user", "Lead (-> Web)", "Lead (-> File)", "Web", "Lead (-> Web)", "web", "File", "Other")
    assert [(span.span_id, span.parent_id) for span in trace.spans if span.kind == "AGENT"][1:] == [
        ("step-3", "step-1"),
        ("step-5", "step-4"),
        ("step-6", "step-2"),
    ]
    assert trace.by_id["step-7"].kind == "LLM"


@pytest.mark.parametrize(
    ("speakers", "answer"),
    [
        (("user", "Lead"), "Lead says"),
        (("user", "Lead (-> Web)", "Web"), None),
        (("Coder", "Computer_terminal"), None),
        (("Coder", "user"), None),
        (("Coder",), "Coder says"),
    ],
)
def test_what_a_sub_agent_or_a_person_said_last_is_no_answer(speakers: tuple[str, ...], answer: str | None) -> None:
    assert team(*speakers).by_id["run"].outputs == answer


def test_what_a_person_said_first_is_the_goal() -> None:
    assert team("human", "Lead", goal="says").by_id["run"].inputs == "human says"
    assert team("human", "Lead").by_id["run"].inputs == {"task": "human says", "question": "Find it."}
    assert team("Lead").by_id["run"].inputs == "Find it."
    assert speaker_of(team("Lead (-> Web)"), "step-0") == "Lead"


@pytest.mark.parametrize(
    ("step", "first", "span_id"),
    [("1", 1, "step-0"), (1, 0, "step-1"), (2, 1, "step-1"), (2, 0, None), (0, 1, None), ("9" * 12, 0, None)],
)
def test_steps_count_from_what_their_reader_says(step: JSON, first: int, span_id: str | None) -> None:
    assert step_span(step, first, team("a", "b")) == span_id


def test_turns_are_named_by_name_then_role_and_none_is_left_out() -> None:
    history = [{"role": "user", "name": "Coder", "content": [{"text": "a"}]}, {"role": "Lead ", "content": None}]
    assert turns_of(history, "history", "x", OPTIONS) == [Turn("Coder", "a"), Turn("Lead", None)]
    with pytest.raises(TraceError, match=r"x, history\[1\]: accepted is a message with a role or a name"):
        turns_of([history[0], {}], "history", "x", OPTIONS)


def test_two_raters_of_one_run_are_both_kept_and_nothing_twice() -> None:
    error = ErrorLabel("step-0", ("plan_quality",), "x", Impact.LOW, rater="one")
    row = LabeledTrace(team("a"), (error,), clean="unknown", group="g", metadata={"a": 1})
    score = ScoreLabel("plan_quality", 2, "two")
    other = LabeledTrace(
        team("a"), (error, replace(error, rater="two")), (score,), "h", "partial", "gold", {"a": 2, "b": 3}, ("two",)
    )
    both = add_raters(row, other)
    assert [one.rater for one in both.errors] == ["one", "two"]
    assert (both.scores, both.group, both.clean, both.reference) == ((score,), "g", "partial", "gold")
    assert (both.metadata, both.raters) == ({"a": 1, "b": 3}, ("two",))
    with pytest.raises(TraceError, match="trace 't': two runs with one id and other content"):
        add_raters(row, replace(other, trace=team("b")))
