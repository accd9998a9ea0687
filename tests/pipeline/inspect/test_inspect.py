from __future__ import annotations

import io
import time
from dataclasses import replace

import pytest

from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.simulated import rate, simulate
from labeled_traces.trace import JSON, Span, SpanKind, Trace
from pipeline.inspect.checks import TRACE_CHECKS, check
from pipeline.inspect.contents import Contents, tokens_of
from pipeline.inspect.passages import passages
from pipeline.inspect.statistics import statistics
from pipeline.inspect.text import statistics_text, warnings_text
from pipeline.inspect.tree import head_text, tree_json, tree_text
from pipeline.terminal import Terminal, columns_of

LIMIT = 24_000
ASKED: JSON = {"messages": [{"role": "user", "content": "go"}], "tools": [{"function": {"name": "search"}}]}
CALLS = {"messages": [{"role": "assistant", "content": None, "tool_calls": [{"name": "made_up", "arguments": {}}]}]}


def contents(*spans: Span, limit: int = LIMIT, **more: object) -> Contents:
    return Contents(replace(LabeledTrace(Trace("t1", spans)), **more), limit)  # type: ignore[arg-type]


def kinds(one: Contents) -> dict[str, str]:
    return {warned.kind: warned.example for warned in check([one]) if warned.kind in TRACE_CHECKS}


GOOD = (
    Span("a", None, "agent", SpanKind.AGENT, 0.0, 2.5, "find it", "found"),
    Span("b", "a", "model", SpanKind.LLM, inputs=ASKED, outputs={"messages": [{"role": "assistant", "content": "x"}]}),
)


def error(span_id: str | None, **more: str) -> ErrorLabel:
    return ErrorLabel(span_id, ("tool_calling",), "Bad call", Impact.HIGH, more.get("said", "says why"), rater="ann")


def test_a_good_trace_has_no_warning() -> None:
    assert kinds(contents(*GOOD)) == {}


@pytest.mark.parametrize(
    ("one", "kind", "example"),
    [
        (contents(replace(GOOD[0], inputs=None)), "trace without a goal", "trace t1"),
        (contents(replace(GOOD[0], outputs=None)), "trace without a final answer", "trace t1"),
        (contents(GOOD[0], replace(GOOD[1], inputs="go")), "LLM span without messages", "trace t1, span b (model)"),
        (
            contents(GOOD[0], replace(GOOD[1], outputs=None)),
            "LLM or TOOL span without output or error",
            "trace t1, span b (LLM model)",
        ),
        (
            contents(GOOD[0], replace(GOOD[1], outputs=CALLS)),
            "tool that is called and that no schema lists",
            "trace t1, span b: 'made_up'",
        ),
        (
            contents(GOOD[0], Span("c", "a", "search", SpanKind.TOOL, outputs="x")),
            "trace with calls of tools and without any schema",
            "trace t1, it calls 'search'",
        ),
        (contents(GOOD[0], replace(GOOD[1], parent_id=None)), "trace with several roots", "trace t1, 2 roots"),
        (contents(*GOOD, errors=(error(None),)), "error label without a span", "trace t1, Bad call by ann"),
        (
            contents(Span("w", None, "wrapper", SpanKind.CHAIN), replace(GOOD[0], parent_id="w"), errors=(error("w"),)),
            "error label at a span that judges do not see",
            "trace t1, span w (a wrapper): Bad call",
        ),
        (
            contents(*GOOD, errors=(error("a", said=""),)),
            "error label without description or evidence",
            "trace t1, Bad call at a",
        ),
        (
            contents(*GOOD, scores=(ScoreLabel("tool_calling", 1),)),
            "score below the best without an error label",
            "trace t1, tool_calling has 1",
        ),
        (
            contents(replace(GOOD[0], outputs="x" * 4000), limit=300),
            "trace that does not fit the limit",
            "trace t1, 1,014 tokens, ",
        ),
        (
            contents(replace(GOOD[0], outputs="x" * 1100), limit=300),
            "trace near the limit",
            "trace t1, 289 of 300 tokens",
        ),
    ],
)
def test_each_kind_of_warning(one: Contents, kind: str, example: str) -> None:
    assert kinds(one)[kind].startswith(example)


def test_a_chat_log_holds_what_its_model_was_sent() -> None:
    silent = replace(GOOD[1], inputs=None)
    unsaid = kinds(contents(GOOD[0], silent))
    said = Span("u", "a", "user", SpanKind.CHAIN, inputs="go")
    assert unsaid.keys() - kinds(contents(GOOD[0], said, silent)) == {"LLM span without messages"}


def test_raters_without_a_common_trace_and_few_labels() -> None:
    ann = contents(*GOOD, errors=(error("a"),))
    trace = Trace("t2", (replace(GOOD[0], inputs="another"),))
    bob = Contents(LabeledTrace(trace, (replace(error("a"), rater="bob"),)), LIMIT)
    found = {warned.kind: warned for warned in check([ann, bob])}
    assert found["pair of raters without a common trace"].example == "ann and bob"
    assert "tool_calling 2" in found["dimension with few errors"].example
    assert "data set without a clean trace" in found
    both = Contents(replace(ann.row, raters=("ann", "bob")), LIMIT)
    assert "pair of raters without a common trace" not in {warned.kind for warned in check([both, bob])}


def test_statistics_count_what_is_there() -> None:
    rows = rate(simulate(20, seed=1), seed=2)
    numbers = statistics([Contents(row, LIMIT) for row in rows])
    assert numbers["spans"]["total"] == sum(len(row.trace.spans) for row in rows)
    assert numbers["tokens"]["max"] == max(render(row.trace, 10**9).tokens for row in rows)
    assert sum(count for _, _, count in numbers["tokens"]["histogram"]) == len(rows)
    assert numbers["error_labels"] == sum(len(row.errors) for row in rows)
    assert numbers["agents"] == {"data_agent": 20}
    assert sum(of["calls"] for of in numbers["tools"].values()) == numbers["kinds"]["TOOL"]
    assert numbers["too_long"] == []
    short = statistics([Contents(row, 600) for row in rows])
    assert len(short["too_long"]) == 20
    assert short["too_long"][0]["cut"] > 0


def test_the_tree_shows_labels_and_errors_at_their_spans() -> None:
    failed = replace(GOOD[1], status="ERROR", error="HTTP 429")
    one = contents(GOOD[0], failed, errors=(error("b"), error(None)), scores=(ScoreLabel("tool_calling", 0, "ann"),))
    lines = tree_text(one, Terminal(120)).split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("└─ LLM model"))
    assert lines[at + 1].strip() == "! HTTP 429"
    assert lines[at + 2].strip() == "✗ high Bad call (tool_calling), by ann: says why"
    assert lines[lines.index("labels:") :][:3] == [
        "labels:",
        "  span b: high Bad call (tool_calling), by ann",
        "      says why",
    ]
    assert "  no span: high Bad call (tool_calling), by ann" in lines
    assert "2.5 s" in head_text(one, Terminal(120))
    assert lines[-1] == "scores: tool_calling 0 (ann)"
    assert [(span["span_id"], span["depth"], len(span["labels"])) for span in tree_json(one)] == [
        ("a", 0, 0),
        ("b", 1, 1),
    ]


@pytest.mark.parametrize("width", [40, 57, 100])
def test_no_line_of_a_tree_is_wider_than_the_terminal(width: int) -> None:
    spans = [Span("s0", None, "根" * 60, SpanKind.AGENT, inputs="長い" * 99, outputs="e\u0301" * 200)]
    spans += [
        Span(f"s{n}", f"s{n - 1}", "🌍 " * 30, SpanKind.CHAIN, outputs=str(n), error="失敗" * 50) for n in range(1, 60)
    ]
    one = contents(*spans, errors=(replace(error("s59"), description="説明" * 100),))
    shown = f"{head_text(one, Terminal(width))}\n{tree_text(one, Terminal(width))}"
    assert max(map(columns_of, shown.split("\nlabels:")[0].split("\n"))) <= width


def test_colours_only_on_a_terminal_and_without_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert Terminal.of(Screen()).colour
    assert not Terminal.of(io.StringIO()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Terminal.of(Screen()).colour
    assert "\x1b" not in tree_text(contents(*GOOD), Terminal())
    assert "\x1b[35mAGENT\x1b[0m" in tree_text(contents(*GOOD), Terminal(colour=True))


def test_a_trace_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J\u202e\x9b31m"
    one = contents(replace(GOOD[0], name=evil, inputs=evil), errors=(replace(error("a"), category=evil),))
    shown = head_text(one, Terminal()) + tree_text(one, Terminal()) + warnings_text(check([one]), Terminal())
    shown += statistics_text(statistics([one]), LIMIT, Terminal())
    assert not {"\x1b", "\u202e", "\x9b"} & set(shown)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Here is my plan:\n1. look\n2. tell\n\nNow I look.", ["Here is my plan:\n1. look\n2. tell"]),
        ("## To-do list\n- [ ] look\n  more\n- [x] tell", ["## To-do list\n- [ ] look\n  more\n- [x] tell"]),
        ("1. look() -> a\n2. tell(a)\n<end_plan>", ["1. look() -> a\n2. tell(a)"]),
        ("I plan to look.\nThen I tell.", []),
        ("1. look\n2. tell", []),
        ("Plan: 1) look 2) tell", ["Plan: 1) look 2) tell"]),
        ("**My plan:** look\n- then tell\nSo:", ["**My plan:** look\n- then tell"]),
        ("Your plan - the Gold one - ends today.", []),
        ("The plan is expensive: 12 a month", []),
        ("Plan – look, then tell", ["Plan – look, then tell"]),
        ("My plan is to look, then tell.\nLooking.", ["My plan is to look, then tell."]),
        ("Here’s the plan:\n\n1. look\n2. tell", ["Here’s the plan:\n\n1. look\n2. tell"]),
        ("## Plan\nI look.\n\nThen I tell.\n## Result\nfound", ["## Plan\nI look.\n\nThen I tell."]),
        ("## Plan\n\n## Result\nfound", []),
        ("Steps:\n1. look\n2. tell\nSo:", ["Steps:\n1. look\n2. tell"]),
        ("Steps: 1) look 2) tell", ["Steps: 1) look 2) tell"]),
        ("To reset it, follow these steps:\n1. press\n2. wait", []),
        ("<plan>look, then tell</plan> So:", ["look, then tell"]),
        ("<plan>look</plan> No. <PLAN>tell</PLAN>", ["look", "tell"]),
        ("Left:\n- [x] look\n- [ ] tell\nSo:", ["- [x] look\n- [ ] tell"]),
        ("- [ ] look", []),
        ("Plans: Basic, Gold and Platinum", []),
        ("We compared the Gold plan with the Basic plan.", []),
        ("plan " * 4000, []),
    ],
)
def test_passages_that_call_themselves_a_plan(text: str, found: list[str]) -> None:
    said = {"messages": [{"role": "assistant", "content": text}]}
    trace = Trace("t", (replace(GOOD[0], outputs=None), replace(GOOD[1], outputs=said)))
    assert passages(trace) == [("b", one) for one in found]


def test_a_passage_stands_at_the_model_that_said_it() -> None:
    said = {"messages": [{"role": "assistant", "content": "Plan: 1) look 2) tell"}]}
    step = Span("n", "a", "model", SpanKind.CHAIN, outputs=said)
    trace = Trace("t", (GOOD[0], step, replace(GOOD[1], parent_id="n", outputs=said)))
    assert passages(trace) == [("b", "Plan: 1) look 2) tell")]


LONG_TEXTS = ("word " * 60_000, "- [ ] a\n\n" * 20_000, f"<plan>{'word ' * 60_000}", f"{'word ' * 60_000}<plan></plan>")


def test_a_long_text_takes_no_time_that_grows_with_its_square() -> None:
    said = {"messages": [{"role": "assistant", "content": text} for text in LONG_TEXTS]}
    started = time.process_time()
    assert passages(Trace("t", (replace(GOOD[1], parent_id=None, outputs=said),))) == []
    assert time.process_time() - started < 3


def test_a_tool_for_todo_lists_is_a_passage() -> None:
    trace = Trace("t", (GOOD[0], Span("c", "a", "TodoWrite", SpanKind.TOOL, inputs={"todos": ["look"]})))
    assert passages(trace) == [("c", '{"todos": ["look"]}')]


def test_the_answer_is_what_a_model_said_last_without_a_call() -> None:
    """Not what a tool gave back, as in the state of a graph that died."""
    tool = {"messages": [{"role": "user", "content": "go"}, {"role": "tool", "content": "40030.13978"}]}
    node = Span("n", "a", "tools", SpanKind.CHAIN, outputs=tool)
    dead = replace(GOOD[0], outputs=None)
    assert contents(dead, replace(GOOD[1], outputs=CALLS), node).answer == ""
    assert contents(dead, GOOD[1], node).answer == "x"
    assert contents(replace(dead, status="ERROR"), GOOD[1], node).answer == "", "what it said before it failed"
    state = {"messages": [*tool["messages"], {"role": "assistant", "content": "done"}]}
    assert contents(replace(GOOD[0], outputs=state)).answer == "done"


def test_the_arguments_and_the_result_of_a_function_name_goal_and_answer() -> None:
    asked = {"question": "find it", "limit": 3, "system": "You find things."}
    one = contents(replace(GOOD[0], inputs=asked, outputs={"answer": "found", "cost": 2}))
    assert (one.goal, one.answer) == ("find it", "found")
    two = contents(replace(GOOD[0], inputs={"task": "a b", "query": "c d"}, outputs={"rows": [1]}))
    assert (two.goal, two.answer) == ('{"task": "a b", "query": "c d"}', '{"rows": [1]}')


def test_the_answer_is_that_of_the_agent_itself() -> None:
    """Not of one below it that came later."""
    below = [Span("s", "a", "sub", SpanKind.AGENT), Span("c", "s", "m", SpanKind.LLM, outputs="a part")]
    assert contents(replace(GOOD[0], outputs=None), GOOD[1], *below).answer == "x"


@pytest.mark.parametrize("kind", [SpanKind.TOOL, SpanKind.RETRIEVER, SpanKind.EMBEDDING])
def test_what_is_no_run_has_no_goal_and_no_answer(kind: SpanKind) -> None:
    alone = contents(replace(GOOD[0], kind=kind))
    assert (alone.goal, alone.answer) == ("", "")


def test_turns_of_a_history_that_does_not_begin_with_the_goal_do_not_count() -> None:
    history = {"messages": [*ASKED["messages"], {"role": "user", "content": "Now proceed and carry out this plan."}]}
    call = replace(GOOD[1], inputs=history)
    assert contents(GOOD[0], call).user_turns == 0
    assert contents(replace(GOOD[0], inputs="go"), call).user_turns == 2, "it begins with the goal"


def test_a_goal_of_several_turns_says_so() -> None:
    assert "goal: find it" in head_text(contents(*GOOD), Terminal())
    second = Span("v", "a", "user", SpanKind.CHAIN, inputs="and now?")
    one = contents(GOOD[0], Span("u", "a", "user", SpanKind.CHAIN, inputs="go"), second)
    assert "goal (first of 2 turns of the user): find it" in head_text(one, Terminal())


def test_tokens_that_nobody_counted_are_no_zero() -> None:
    half = replace(GOOD[1], span_id="c", attributes={"llm.token_count": {"prompt": 7}})
    said = statistics_text(statistics([contents(GOOD[0], GOOD[1])]), LIMIT, Terminal())
    assert "models: (no name) 1 call, tokens not recorded" in said
    one = contents(GOOD[0], GOOD[1], half)
    assert "7+? tokens" in tree_text(one, Terminal())
    assert "models: (no name) 2 calls, 7+? tokens in 1 of them" in statistics_text(statistics([one]), LIMIT, Terminal())
    none = replace(GOOD[1], attributes={"llm.token_count": {"prompt": 0, "completion": 0}})
    assert tokens_of(none) == {}
    assert "CHAIN step  nothing recorded  s" in tree_text(contents(Span("s", None, "step", SpanKind.CHAIN)), Terminal())


def test_no_id_is_cut() -> None:
    spans = (replace(GOOD[0], span_id="a" * 36), replace(GOOD[1], span_id="b" * 36, parent_id="a" * 36, name="n" * 99))
    shown = tree_text(contents(*spans), Terminal(60))
    assert "a" * 36 in shown
    assert "b" * 36 in shown


UUID = "01a22bf4-5c32-72a3-811a-77d92841e07a"
LONG = f"{'word ' * 40}{UUID} end"


def test_a_label_is_shown_whole_below_the_tree() -> None:
    told = replace(error("b", said=LONG), evidence=f"seen {LONG}", time=0.0)
    one = contents(*GOOD, errors=(told,))
    below = tree_text(one, Terminal(60)).split("\nlabels:\n")[1]
    assert " ".join(below.split()) == (
        f"span b: high Bad call (tool_calling), by ann at 1970-01-01 00:00+00:00 {LONG} evidence: seen {LONG}"
    )
    assert UUID in below, "on one line"
    assert max(map(len, below.split("\n"))) <= 60


def test_a_pipe_gets_goal_answer_and_examples_whole() -> None:
    one = contents(replace(GOOD[0], inputs=LONG, outputs=LONG), replace(GOOD[1], name=LONG, inputs=None))
    screen, pipe = Terminal(60), Terminal.of(io.StringIO())
    assert pipe.whole
    assert f"goal: {LONG}\nanswer: {LONG}" in head_text(one, pipe)
    assert LONG not in head_text(one, screen)
    assert f"({LONG})\n" in warnings_text(check([one]), pipe)
    assert UUID in warnings_text(check([one]), screen), "wrapped, at blanks alone"
    assert max(map(columns_of, tree_text(one, Terminal(60, whole=True)).split("\n"))) <= 60, "a tree stays one"


def test_a_wide_tree() -> None:
    spans = [Span("r", None, "root"), *(Span(f"s{n}", "r", "tool", SpanKind.TOOL, inputs=n) for n in range(8_000))]
    text = tree_text(Contents(LabeledTrace(Trace("wide", tuple(spans))), 2_000), Terminal())
    assert text.count("left out") > 7_000


@pytest.mark.parametrize(("given", "expected"), [(12.0, 12), ("7", 7), ("1" * 5000, None), (1e400, None), (-3, None)])
def test_counts_of_tokens_that_are_none(given: JSON, expected: int | None) -> None:
    assert (
        tokens_of(Span("a", None, "llm", attributes={"llm.token_count": {"prompt": given}})).get("prompt") == expected
    )
