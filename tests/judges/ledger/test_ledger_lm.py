"""Tests of the ledger in front of a model: what is paid, what is replayed, and what a budget allows."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judges.ledger.budget import Budget, Usage, reserved_tokens
from judges.ledger.ledger_lm import Ledger, LedgerLM, NotInLedger
from judges.ledger.steps import Drop, End, Reserve
from judges.lm import BudgetExhausted, JudgeError, LMError, LMReply, LMRequest, Message, ProviderDown
from judges.models.client import ModelClient

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel
    from tests.judges.scripted_server import ScriptedServer

    Models = type[CountingModel]
    RunSql = Callable[..., list[Any]]
    Servers = type[ScriptedServer]

texts = st.text(st.characters(codec=None), max_size=200)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


def test_a_reply_is_paid_once_and_replayed(path: Path, counting_model: Models) -> None:
    model = counting_model()
    with LedgerLM(model, Ledger(path), "run") as lm:
        (first,) = counting_model.ask(lm, counting_model.request())
        assert lm.spent() == Usage(1, 15, 0.001)
    with LedgerLM(model, Ledger(path), "run") as lm:
        (second,) = counting_model.ask(lm, counting_model.request())
        assert lm.spent() == Usage(1, 15, 0.001)
    assert len(model.asked) == 1
    assert (first.replayed, second) == (False, replace(first, replayed=True))


@pytest.mark.parametrize(
    "changes",
    [
        {"repeat": 1},
        {"endpoint": "http://127.0.0.1:1/v1"},
        {"model": "openai/other"},
        {"temperature": 0.1},
        {"max_tokens": 101},
        {"seed": 1},
        {"schema": {"type": "object"}},
        {"messages": (Message("system", "prompt 0"),)},
    ],
)
def test_whatever_differs_is_another_call(ledger: Ledger, changes: dict[str, Any], counting_model: Models) -> None:
    model = counting_model()
    counting_model.ask(LedgerLM(model, ledger, "run"), counting_model.request(), counting_model.request(**changes))
    assert len(model.asked) == 2


def test_repeats_stay_different_when_they_are_replayed(ledger: Ledger, counting_model: Models) -> None:
    """P19 of the field: repeats served from one cached row look perfectly consistent."""
    said = {0: "1010", 1: "1110", 2: "0010"}
    model = counting_model(lambda request: LMReply(said[request.repeat]))
    repeats = [counting_model.request(repeat=number) for number in range(3)]
    lm = LedgerLM(model, ledger, "run")
    assert [reply.text for reply in counting_model.ask(lm, *repeats)] == list(said.values())
    assert [reply.text for reply in counting_model.ask(lm, *repeats)] == list(said.values())
    assert len(model.asked) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    st.builds(
        LMReply,
        text=texts,
        finish_reason=st.sampled_from(["stop", "length", "content_filter", ""]),
        prompt_tokens=st.integers(0, 10**7),
        completion_tokens=st.integers(0, 10**7),
        cached_tokens=st.integers(0, 10**7),
        cost=st.none() | st.floats(0, 1e3),
        reasoning_tokens=st.integers(0, 10**7),
        sent=st.sampled_from(["", '{"temperature": 0.5, "seed": 1}']),
    ),
    texts,
)
def test_any_reply_comes_back_as_it_was(
    ledger: Ledger, counting_model: Models, run_sql: RunSql, reply: LMReply, prompt: str
) -> None:
    lm = LedgerLM(counting_model(lambda _: reply), ledger, "run")
    asked = counting_model.request(messages=(Message("user", prompt),))
    run_sql(ledger.path, "DELETE FROM calls")
    live, replayed = counting_model.ask(lm, asked, asked)
    assert replayed == replace(live, replayed=True)
    assert live == replace(reply, cost=live.cost)
    assert live.cost == reply.cost if reply.cost is None else math.isclose(live.cost or 0, reply.cost, abs_tol=1e-12)


def test_equal_calls_in_flight_are_one(ledger: Ledger, counting_model: Models) -> None:
    model = counting_model(delay=0.05)
    lm = LedgerLM(model, ledger, "run")
    replies = counting_model.ask_at_once(lm, *[counting_model.request()] * 8)
    assert len(model.asked) == 1
    assert [reply.text for reply in replies if isinstance(reply, LMReply)] == ["reply 0"] * 8
    assert sorted(reply.replayed for reply in replies if isinstance(reply, LMReply)) == [False] + [True] * 7
    assert lm.spent().calls == 1


def test_equal_calls_of_several_threads_and_loops_are_one(path: Path, counting_model: Models) -> None:
    model = counting_model(delay=0.1)
    with Ledger(path) as first, Ledger(path) as second:
        lms = [LedgerLM(model, ledger, "run") for ledger in (first, first, second, second)]
        threads = [
            threading.Thread(target=counting_model.ask_at_once, args=(lm, *[counting_model.request()] * 2))
            for lm in lms
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(model.asked) == 1
        assert first.spent("run").calls == 1


def test_a_failure_is_shared_counted_and_not_kept(ledger: Ledger, counting_model: Models) -> None:
    def failing(_: LMRequest) -> LMReply:
        raise LMError("timeout", "no reply within 1 s")

    model = counting_model(failing, delay=0.02)
    lm = LedgerLM(model, ledger, "run", Budget(dollars=1.0), cost_of=lambda *_: 0.25)
    errors = counting_model.ask_at_once(lm, *[counting_model.request()] * 3)
    assert [(type(error), str(error)) for error in errors] == [(LMError, "no reply within 1 s")] * 3
    assert {error.kind for error in errors if isinstance(error, LMError)} == {"timeout"}
    reserved = sum(reserved_tokens(counting_model.request()))
    assert lm.spent() == Usage(1, reserved, 0.25), "what it cost is unknown, so the most that it can have cost counts"
    with pytest.raises(LMError):
        counting_model.ask(lm, counting_model.request())
    assert (len(model.asked), ledger.failed("run"), lm.spent().calls) == (2, 2, 2)
    well = LedgerLM(counting_model(), ledger, "run")
    assert counting_model.ask(well, counting_model.request())[0].text == "reply 0"
    assert well.spent() == Usage(3, 2 * reserved + 15, 0.501)


def test_a_failure_that_cannot_be_billed_is_a_call_and_no_more(ledger: Ledger, counting_model: Models) -> None:
    def failing(_: LMRequest) -> LMReply:
        raise LMError("provider_error", "no such model", billed=False)

    lm = LedgerLM(counting_model(failing), ledger, "run", Budget(dollars=1.0), cost_of=lambda *_: 0.25)
    with pytest.raises(LMError):
        counting_model.ask(lm, counting_model.request())
    assert (lm.spent(), ledger.failed("run")) == (Usage(1, 0, 0.0), 1)


def test_which_part_of_what_was_spent_is_assumed_is_told(ledger: Ledger, counting_model: Models) -> None:
    def answer(request: LMRequest) -> LMReply:
        if request.repeat == 0:
            raise LMError("timeout", "no reply within 1 s")
        if request.repeat == 1:
            raise LMError("provider_error", "boom", billed=False)
        return LMReply("x", prompt_tokens=7 if request.repeat == 2 else 0, completion_tokens=5)

    lm = LedgerLM(counting_model(answer), ledger, "run", Budget(dollars=0.75), cost_of=lambda *_: 0.25)
    counting_model.ask_at_once(lm, *(counting_model.request(repeat=repeat) for repeat in range(4)))
    spent = lm.spent()
    assert (spent.calls, spent.cost, spent.assumed, spent.unsure) == (4, 0.75, 0.5, 2)
    why = "a timeout, a lost connection, a stop, no usage told"
    assert spent.doubt == f", 0.5 of them assumed for 2 calls whose cost is not known ({why})"
    with pytest.raises(BudgetExhausted, match=r"0.75 of 0.75 dollars are used up, 0.5 of them assumed for 2 calls"):
        counting_model.ask(lm, counting_model.request(repeat=4))
    assert (spent - spent).doubt == Usage(2, 8, 0.5).doubt == ""


def test_a_cancelled_leader_hands_over(ledger: Ledger, counting_model: Models) -> None:
    model = counting_model(delay=0.1)
    lm = LedgerLM(model, ledger, "run")

    async def scene() -> LMReply:
        leader = asyncio.create_task(lm.complete(counting_model.request()))
        await asyncio.sleep(0.02)
        follower = asyncio.create_task(lm.complete(counting_model.request()))
        await asyncio.sleep(0.02)
        leader.cancel()
        return await follower

    assert asyncio.run(scene()).replayed is False
    assert len(model.asked) == 2
    reserved = sum(reserved_tokens(counting_model.request()))
    spent = lm.spent()
    assert spent == Usage(2, reserved + 15, 0.001, unpriced=True), "a call that was cancelled may have been paid"
    assert spent.dollars is None


def test_a_cancelled_follower_disturbs_nobody(ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(delay=0.1), ledger, "run")

    async def scene() -> LMReply:
        leader = asyncio.create_task(lm.complete(counting_model.request()))
        await asyncio.sleep(0.02)
        follower = asyncio.create_task(lm.complete(counting_model.request()))
        await asyncio.sleep(0.02)
        follower.cancel()
        return await leader

    assert asyncio.run(scene()).text == "reply 0"


def test_a_wrong_setting_is_no_call(ledger: Ledger, counting_model: Models) -> None:
    def refuse(_: LMRequest) -> LMReply:
        raise JudgeError("endpoint ...")

    lm = LedgerLM(counting_model(refuse), ledger, "run")
    with pytest.raises(JudgeError):
        counting_model.ask(lm, counting_model.request())
    assert lm.spent() == Usage()


# What may be billed, over HTTP: the client tries twice more

BUSY = {"error": {"message": "no", "type": "x"}}


@pytest.mark.parametrize(
    ("status", "body", "sent", "billed"),
    [
        (500, BUSY, 3, 0),
        (520, BUSY, 3, 0),
        (502, BUSY, 3, 3),
        (504, BUSY, 3, 3),
        (200, {"choices": []}, 3, 3),
        (200, "", 3, 3),
        (200, BUSY, 1, 1),
        (503, BUSY, 3, 0),
        (429, BUSY, 3, 0),
        (400, BUSY, 1, 0),
        (401, BUSY, 1, 0),
        (403, BUSY, 1, 0),
        (404, BUSY, 1, 0),
    ],
)
def test_every_attempt_is_a_call_and_charged_unless_the_answer_rules_it_out(
    ledger: Ledger, client: ModelClient, scripted_server: Servers, status: int, body: Any, sent: int, billed: int
) -> None:
    if isinstance(body, dict) and "choices" in body:
        body = scripted_server.chat("x", **body)
    lm = LedgerLM(client, ledger, "run", Budget(dollars=10.0), cost_of=lambda *_: 0.25)
    with scripted_server(lambda _: scripted_server.answer(status, body)) as server:
        with pytest.raises(LMError):
            asyncio.run(lm.complete(server.request()))
        assert len(server.requests) >= sent
        spent, reserved = lm.spent(), sum(reserved_tokens(server.request()))
        calls = len(server.requests)
        assert spent == Usage(calls, bool(billed) * calls * reserved, bool(billed) * calls * 0.25)


def test_a_refused_connection_is_not_billed_and_a_lost_one_may_be(
    ledger: Ledger, client: ModelClient, scripted_server: Servers
) -> None:
    with scripted_server(lambda _: "x") as server:
        pass
    lm = LedgerLM(client, ledger, "refused", cost_of=lambda *_: 0.25)
    with pytest.raises(LMError):
        asyncio.run(lm.complete(server.request()))
    assert lm.spent() == Usage(3, 0, 0.0)

    def vanish(_: dict[str, Any]) -> Any:
        raise ConnectionResetError

    lm = LedgerLM(client, ledger, "lost", cost_of=lambda *_: 0.25)
    with scripted_server(vanish) as server:
        with pytest.raises(LMError):
            asyncio.run(lm.complete(server.request()))
        reserved = sum(reserved_tokens(server.request()))
    assert lm.spent() == Usage(3, 3 * reserved, 0.75)


@pytest.mark.parametrize("status", [500, 429])
def test_retries_never_pass_a_cap(ledger: Ledger, client: ModelClient, scripted_server: Servers, status: int) -> None:
    lm = LedgerLM(client, ledger, "run", Budget(calls=10))

    async def twenty(server: ScriptedServer) -> list[LMReply | BaseException]:
        calls = (lm.complete(server.request(repeat=i)) for i in range(20))
        return await asyncio.gather(*calls, return_exceptions=True)

    with scripted_server(lambda _: scripted_server.error(status, "boom")) as server:
        ends = asyncio.run(twenty(server))
        assert len(server.requests) == lm.spent().calls == 10
    assert {type(end) for end in ends} == {LMError, ProviderDown}, "not the budget is what a user has to look at"
    assert any("boom" in str(end) for end in ends)


def test_a_retry_that_works_pays_for_both(ledger: Ledger, client: ModelClient, scripted_server: Servers) -> None:
    lm = LedgerLM(client, ledger, "run", Budget(dollars=1.0), cost_of=lambda *_: 0.25)
    answers = scripted_server.in_turn(scripted_server.error(502, "boom"), "fine")
    with scripted_server(answers) as server:
        assert asyncio.run(lm.complete(server.request())).text == "fine"
        reserved = sum(reserved_tokens(server.request()))
    assert (lm.spent(), ledger.failed("run")) == (Usage(2, reserved + 120, 0.5), 1)


# Replay


def test_replay_answers_from_the_ledger_alone(path: Path, counting_model: Models) -> None:
    with LedgerLM(counting_model(), Ledger(path), "run") as lm:
        (live,) = counting_model.ask(lm, counting_model.request())
    before = path.read_bytes()
    model = counting_model()
    with LedgerLM(model, Ledger(path, read_only=True), "other", mode="replay") as lm:
        assert counting_model.ask(lm, counting_model.request()) == [replace(live, replayed=True)]
        with pytest.raises(NotInLedger, match=r"repeat 1\) is not in the ledger .*ledger\.sqlite") as caught:
            counting_model.ask(lm, counting_model.request(repeat=1))
        assert isinstance(caught.value, LMError)
    assert model.asked == []
    assert path.read_bytes() == before


def test_a_pending_call_is_not_replayed(path: Path, counting_model: Models) -> None:
    with Ledger(path) as ledger:
        asked = counting_model.request()
        ledger.do(Reserve(asked.key, asked, "run", Usage(1, 1), Budget())).result()
        with pytest.raises(NotInLedger):
            counting_model.ask(LedgerLM(counting_model(), ledger, "run", mode="replay"), counting_model.request())


def test_a_mode_or_a_run_that_cannot_be(ledger: Ledger, counting_model: Models) -> None:
    wrong: Literal["live"] = "dead"  # type: ignore[assignment]
    with pytest.raises(JudgeError, match="accepted are live and replay"):
        LedgerLM(counting_model(), ledger, "run", mode=wrong)
    for name in ("", "a\0b", "\ud83d"):
        with pytest.raises(JudgeError, match="a run needs a name"):
            LedgerLM(counting_model(), ledger, name)


@pytest.mark.parametrize("flight", [8, 128])
def test_the_ledger_costs_less_than_half_a_millisecond_a_call(path: Path, counting_model: Models, flight: int) -> None:
    """2,000 calls a second and more. Processor time, since others may keep the machine busy."""
    rest = iter([counting_model.request(i) for i in range(1000)])

    async def worker(lm: LedgerLM) -> None:
        for request in rest:
            await lm.complete(request)

    async def workers(lm: LedgerLM) -> None:
        await asyncio.gather(*(worker(lm) for _ in range(flight)))

    with LedgerLM(counting_model(), Ledger(path), "run", Budget(calls=10_000)) as lm:
        began = time.process_time()
        asyncio.run(workers(lm))
        assert (time.process_time() - began) / 1000 < 0.0005
        assert lm.spent().calls == 1000


def test_a_reply_from_elsewhere_is_filed_once_and_charged_as_told(ledger: Ledger, counting_model: Models) -> None:
    model = counting_model()
    lm = LedgerLM(model, ledger, "run", cost_of=lambda _, prompt, completion: 0.25 * (prompt + completion))
    asked = counting_model.request()
    assert lm.answer(asked, LMReply("from a batch", "length", 4, 2, 1), price_factor=0.5)
    assert lm.spent() == Usage(1, 6, 0.75)
    assert not lm.answer(asked, LMReply("another", "stop", 40, 20), price_factor=0.5)
    assert counting_model.ask(lm, asked) == [LMReply("from a batch", "length", 4, 2, 1, 0.75, replayed=True)]
    assert (lm.spent(), lm.kept(), model.asked) == (Usage(1, 6, 0.75), 1, [])


def test_a_reply_from_elsewhere_that_tells_no_usage_counts_as_the_most(ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(), ledger, "run", cost_of=lambda _, prompt, completion: 0.25 * (prompt + completion))
    assert lm.answer(counting_model.request(), LMReply("of a person"), price_factor=0.5)
    most = sum(reserved_tokens(counting_model.request()))
    assert lm.spent() == Usage(1, most, 0.125 * most)


@pytest.mark.parametrize("cost", [0.0, 0.07])
def test_a_cost_that_is_told_without_usage_is_what_is_charged(
    cost: float, ledger: Ledger, counting_model: Models
) -> None:
    lm = LedgerLM(counting_model(), ledger, "run", cost_of=lambda *_: 0.25)
    asked = counting_model.request()
    assert lm.answer(asked, LMReply("of a person", cost=cost))
    assert lm.spent() == Usage(1, sum(reserved_tokens(asked)), cost)
    assert counting_model.ask(lm, asked)[0].cost == cost


def test_a_reply_that_is_paid_is_kept_beyond_the_cap_and_ends_the_run(ledger: Ledger, counting_model: Models) -> None:
    model = counting_model()
    lm = LedgerLM(model, ledger, "run", Budget(calls=1))
    assert lm.answer(counting_model.request(0), LMReply("a", "stop", 4, 2))
    assert lm.answer(counting_model.request(1), LMReply("b", "stop", 4, 2))
    assert lm.spent().calls == 2
    with pytest.raises(BudgetExhausted, match="2 of 1 calls are used up"):
        counting_model.ask(lm, counting_model.request(2))
    assert not model.asked


def test_a_call_in_flight_is_not_answered_from_elsewhere(ledger: Ledger, counting_model: Models) -> None:
    """Its reply is on the way; two would be charged to one row."""
    asked = counting_model.request()
    ledger.do(Reserve(asked.key, asked, "other", Usage(1, 10, 0.0), Budget())).result()
    lm = LedgerLM(counting_model(), ledger, "run")
    assert not lm.answer(asked, LMReply("late", "stop", 4, 2))
    ledger.do(Drop(asked.key, End.UNBILLED)).result()
    assert lm.answer(asked, LMReply("late", "stop", 4, 2))
    assert lm.spent().calls == 1


def test_the_end_of_the_budget_is_told_with_what_calls_in_flight_took(ledger: Ledger, counting_model: Models) -> None:
    small, large = counting_model.request(0), counting_model.request(1, max_tokens=1000)
    price = {1: 0.2, 100: 0.2, 1000: 0.9}

    def answer(request: LMRequest) -> LMReply:
        return LMReply("x", prompt_tokens=7, completion_tokens=request.max_tokens)

    model = counting_model(answer, delay=0.1)
    cost_of = lambda request, *_: price[request.max_tokens]  # noqa: E731
    lms = [LedgerLM(model, ledger, name, Budget(dollars=1.0), cost_of=cost_of) for name in ("run", "evaluate-1")]

    async def scene(lm: LedgerLM, repeat: int) -> BudgetExhausted:
        await lm.complete(replace(small, max_tokens=1, repeat=repeat))
        in_flight = asyncio.create_task(lm.complete(replace(small, repeat=repeat)))
        await asyncio.sleep(0.03)
        with pytest.raises(BudgetExhausted) as caught:
            await lm.complete(replace(large, repeat=repeat))
        await in_flight
        return caught.value

    end, of_another = (asyncio.run(scene(lm, repeat)) for repeat, lm in enumerate(lms))
    assert str(end) == "0.2 of 1 dollars are used up, and the next call could take 0.9"
    assert end.now is not None
    assert end.now() == "0.4 of 1 dollars are used up, and the next call could take 0.9"
    assert of_another.now is not None
    assert of_another.now().startswith("budget of run 'evaluate-1': 0.4 of 1 dollars")


def test_an_interrupt_is_told_what_is_kept_and_spent(ledger: Ledger, counting_model: Models) -> None:
    def work() -> None:
        with LedgerLM(counting_model(), ledger, "run") as lm:
            counting_model.ask(lm, *(counting_model.request(number) for number in range(20)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        work()
    assert caught.value.__notes__ == ["20 replies are kept, 0.02 dollars spent"]
