from __future__ import annotations

import io
from dataclasses import replace

import pytest

from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact, ScoreLabel
from labeled_traces.simulated import rate, simulate
from labeled_traces.trace import JSON, Span, SpanKind, Trace
from pipeline.inspect.checks import TRACE_CHECKS, check
from pipeline.inspect.contents import Contents, tokens_of
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
            "score below the best, and no error that somebody marked",
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


def test_a_data_set_without_a_label_has_no_table_of_zeros() -> None:
    shown = statistics_text(statistics([contents(*GOOD)]), LIMIT, Terminal())
    assert "no labels yet" in shown
    assert "tool_calling" not in shown
    scored = contents(*GOOD, scores=(ScoreLabel("tool_calling", 1),))
    assert "tool_calling" in statistics_text(statistics([scored]), LIMIT, Terminal())
    outside = contents(*GOOD, errors=(replace(error("a"), dimensions=()),))
    assert "data set without an error label" not in {warned.kind for warned in check([outside])}


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
