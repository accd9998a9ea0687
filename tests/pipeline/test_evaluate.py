from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from judges.judgment import Finding, Judgment, Outcome
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import BudgetExhausted, LMError, LMReply, LMRequest, ProviderDown
from judges.program import seed_suite
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import Impact
from labeled_traces.trace import Span, SpanKind, Trace, TraceError
from pipeline.evaluate import (
    EvaluateSettings,
    EvaluationStopped,
    NoUsableReply,
    check_replies,
    evaluate,
    evaluate_async,
    load_judgments,
    save_judgments,
)

NAMES = ("goal_fulfillment", "tool_calling", "tool_selection")
SUITE = seed_suite(dimensions=NAMES)
CLEAN = json.dumps({"rationale": "fine", "findings": [], "score": 3})


def row(name: str) -> LabeledTrace:
    return LabeledTrace(Trace(name, (Span(f"root-{name}", None, "agent", SpanKind.AGENT, inputs="do", outputs="did"),)))


ROWS = [row(name) for name in "abcde"]


class FakeLM:
    """Answers after a turn of the loop; `act` may raise. Keeps what was in flight at each start."""

    def __init__(self, act: Callable[[int, LMRequest], None] = lambda *_: None) -> None:
        self.act = act
        self.requests: list[LMRequest] = []
        self.in_flight: list[tuple[str, int]] = []
        self.seen: list[list[tuple[str, int]]] = []

    async def complete(self, request: LMRequest) -> LMReply:
        number = len(self.requests)
        self.requests.append(request)
        key = (trace_of(request), request.repeat)
        self.in_flight.append(key)
        self.seen.append(list(self.in_flight))
        try:
            await asyncio.sleep(0.001 * (number % 3))
            self.act(number, request)
            return LMReply(CLEAN, cost=0.25, prompt_tokens=10, completion_tokens=2)
        finally:
            self.in_flight.remove(key)


def trace_of(request: LMRequest) -> str:
    text = request.messages[-1].content
    return next(name for name in "abcdefghijklmnopqrst" if f"@span root-{name} " in text)


def test_one_judgment_for_each_in_a_fixed_order() -> None:
    judgments = evaluate(SUITE, iter(ROWS), FakeLM(), EvaluateSettings(repeats=2, first_repeat=7))
    assert [(j.trace_id, j.dimension, j.repeat) for j in judgments] == [
        (name, dimension, repeat) for name in "abcde" for dimension in NAMES for repeat in (7, 8)
    ]
    assert {j.outcome for j in judgments} == {Outcome.SCORED}
    assert {j.score for j in judgments} == {3}
    assert sum(j.cost or 0 for j in judgments) == 30 * 0.25


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_concurrency_is_bounded(concurrency: int) -> None:
    lm = FakeLM()
    evaluate(SUITE, ROWS, lm, EvaluateSettings(repeats=3, concurrency=concurrency))
    assert len(lm.requests) == 45
    assert max(map(len, lm.seen)) == concurrency


def test_one_call_of_a_trace_goes_first_and_the_others_follow_together() -> None:
    lm = FakeLM()
    evaluate(SUITE, ROWS[:1], lm, EvaluateSettings(repeats=3))
    assert [len(in_flight) for in_flight in lm.seen][:5] == [1, 1, 2, 3, 4]
    assert [request.repeat for request in lm.requests][:5] == [0, 1, 2, 0, 0]


def test_what_no_other_call_reads_is_not_marked_for_a_cache() -> None:
    one = seed_suite(dimensions=NAMES[:1])
    plan = seed_suite(dimensions=("plan_quality",))
    for suite, repeats, shared in ((one, 1, False), (one, 2, True), (plan, 1, True), (SUITE, 1, True)):
        lm = FakeLM()
        evaluate(suite, ROWS[:1], lm, EvaluateSettings(repeats=repeats))
        assert {bool(request.messages[-1].shared) for request in lm.requests} == {shared}


def test_no_more_is_begun_than_the_slots_need() -> None:
    """Of many traces the first ones are done before the last ones are begun."""
    lm = FakeLM()
    rows = [row(name) for name in "abcdefghijklmnopqrst"]
    most = 0

    def act(*_: object) -> None:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))

    lm.act = act
    evaluate(SUITE, rows, lm, EvaluateSettings(repeats=3, concurrency=4))
    starts = [trace_of(request) for request in lm.requests]
    assert most <= 4 + 2  # the workers, what started them, and one that is about to end
    assert starts.index("t") > len(starts) - 5 * 9


def test_with_one_slot_the_calls_of_a_trace_stay_together() -> None:
    lm = FakeLM()
    evaluate(SUITE, ROWS, lm, EvaluateSettings(repeats=2, concurrency=1))
    assert [trace_of(request) for request in lm.requests] == [name for name in "abcde" for _ in range(6)]


def test_a_failed_call_is_an_outcome_and_the_rest_goes_on() -> None:
    def fail(_: int, request: LMRequest) -> None:
        if trace_of(request) == "b":
            raise LMError("timeout", "too slow")

    judgments = evaluate(SUITE, ROWS, FakeLM(fail))
    assert [j.outcome for j in judgments if j.trace_id == "b"] == [Outcome.TIMEOUT] * 3
    assert {j.outcome for j in judgments if j.trace_id != "b"} == {Outcome.SCORED}
    check_replies(judgments)


def test_a_programming_error_is_not_hidden() -> None:
    def fail(number: int, _: LMRequest) -> None:
        if number == 4:
            raise ZeroDivisionError("ours")

    lm = FakeLM(fail)
    with pytest.raises(ZeroDivisionError, match="ours"):
        evaluate(SUITE, ROWS, lm)
    assert lm.in_flight == []
    assert len(lm.requests) < 15


def test_a_model_that_answers_at_once_can_be_interrupted() -> None:
    lm = FakeLM()

    class AtOnce:
        async def complete(self, request: LMRequest) -> LMReply:
            lm.requests.append(request)
            return LMReply(CLEAN)

    async def soon() -> None:
        async with asyncio.timeout(0.05):
            await evaluate_async(SUITE, ROWS, AtOnce(), EvaluateSettings(repeats=10_000))

    with pytest.raises(TimeoutError):
        asyncio.run(soon())
    assert 0 < len(lm.requests) < 150_000


def test_a_used_up_budget_keeps_what_is_done() -> None:
    def stop(number: int, _: LMRequest) -> None:
        if number >= 6:
            end = BudgetExhausted("5 of 6 calls are used up")
            end.now = lambda: "6 of 6 calls are used up"
            raise end

    lm = FakeLM(stop)
    with pytest.raises(EvaluationStopped, match=r"^6 of 6 calls.*9 of 15 judgments") as error:
        evaluate(SUITE, ROWS, lm, EvaluateSettings(concurrency=1))
    judgments = error.value.judgments
    assert [j.outcome for j in judgments] == [Outcome.SCORED] * 6 + [Outcome.NOT_RUN] * 9
    assert judgments[-1].trace_id == "e"
    assert len(lm.requests) == 7  # nothing more is sent after the first refusal


@pytest.mark.parametrize(("answers", "concurrency", "sent"), [(0, 2, 8 + 2), (7, 2, 7 + 8 + 2 + 2), (7, 1, 7 + 8 + 1)])
def test_a_dead_provider_costs_a_few_calls(tmp_path: Path, answers: int, concurrency: int, sent: int) -> None:
    def fail(number: int, _: LMRequest) -> None:
        if number >= answers:
            raise LMError("provider_error", "connection refused")

    model = FakeLM(fail)
    settings = EvaluateSettings(repeats=20, concurrency=concurrency)
    with LedgerLM(model, Ledger(tmp_path / "ledger.sqlite"), "run") as lm:
        with pytest.raises(ProviderDown, match=r"calls (in a row )?failed.*connection refused.*start the same command"):
            evaluate(SUITE, ROWS, lm, settings)
        assert answers + 8 <= len(model.requests) <= sent
    with LedgerLM(FakeLM(), Ledger(tmp_path / "ledger.sqlite"), "run") as lm:
        assert len(evaluate(SUITE, ROWS, lm, settings)) == 300
        assert lm.ledger.failed("run") == len(model.requests) - answers
        assert lm.spent().calls == 300 + lm.ledger.failed("run")


def test_an_occasional_failure_stops_nothing(tmp_path: Path) -> None:
    def fail(number: int, _: LMRequest) -> None:
        if number % 9:
            raise LMError("provider_error", "no")

    with LedgerLM(FakeLM(fail), Ledger(tmp_path / "ledger.sqlite"), "run") as lm:
        judgments = evaluate(SUITE, ROWS, lm, EvaluateSettings(repeats=3, concurrency=1))
    assert sum(j.outcome is Outcome.PROVIDER_ERROR for j in judgments) == 40


def test_no_reply_at_all_is_an_error_for_those_who_ask() -> None:
    failed = Judgment("a", "tool_calling", "p", 0, Outcome.TIMEOUT, detail="slow")
    with pytest.raises(LMError, match="1 calls failed"):
        check_replies([failed])
    refused = Judgment("b", "tool_calling", "p", 0, Outcome.REFUSED, detail="no")
    check_replies([failed, refused], usable=False)
    with pytest.raises(
        NoUsableReply, match=r"not one of 2 .* \(1 timeout, 1 refused\); the first one, .* trace a: slow"
    ):
        check_replies([failed, refused])
    check_replies([failed, refused, Judgment("c", "plan_quality", "p", 0, Outcome.NOT_APPLICABLE)])
    check_replies([])


def test_inside_a_running_loop() -> None:
    async def caller() -> list[Judgment]:
        return evaluate(SUITE, ROWS[:1], FakeLM())

    assert len(asyncio.run(caller())) == 3


def test_errors_come_out_of_a_running_loop_too() -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def caller() -> list[Judgment]:
        return evaluate(SUITE, ROWS[:1], FakeLM(fail))

    with pytest.raises(ZeroDivisionError):
        asyncio.run(caller())


def test_judgments_whose_calls_somebody_cancelled_are_not_silently_left_out() -> None:
    def cancel(number: int, _: LMRequest) -> None:
        if number == 2:
            raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="judgments were not made: somebody has cancelled their calls"):
        evaluate(SUITE, ROWS, FakeLM(cancel))


def test_no_rows_no_judgments() -> None:
    assert evaluate(SUITE, [], FakeLM()) == []


def test_no_progress_bar_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    evaluate(SUITE, ROWS, FakeLM(), EvaluateSettings(progress="reading"))
    assert capfd.readouterr() == ("", "")


def test_judgments_survive_the_file(tmp_path: Path) -> None:
    finding = Finding("tool_calling", ("s1", "s2"), "wrong \ud83d year \u2028", "2\n3", Impact.HIGH, 80)
    judgments = [
        Judgment("a", "tool_calling", "p", 3, Outcome.SCORED, 0, (finding,), "because", cost=None, warnings=("w",)),
        Judgment("b", "holistic", "p", 0, Outcome.NOT_RUN, detail="stopped"),
    ]
    path = tmp_path / "deep" / "judgments.jsonl"
    save_judgments(path, judgments)
    assert load_judgments(path) == judgments
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"outcome": "great", "findings": [], "warnings": []}'])
def test_a_line_that_is_no_judgment(tmp_path: Path, line: str) -> None:
    path = tmp_path / "judgments.jsonl"
    save_judgments(path, [Judgment("b", "holistic", "p", 0, Outcome.NOT_RUN)])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(TraceError, match=r"judgments\.jsonl, line 2"):
        load_judgments(path)
