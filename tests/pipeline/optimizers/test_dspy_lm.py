"""The reflection model as DSPy sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import dspy
import optuna
import pytest

from judges.ledger.ledger_lm import NotInLedger
from judges.lm import BudgetExhausted, LMError, LMReply, LMRequest, Message
from pipeline.optimizers.dspy_lm import Engine, Stopped, borrowed
from pipeline.optimizers.reflection import Reflector

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import World

GOOD = "[[ ## answer ## ]]\nForty {two}\n\n[[ ## completed ## ]]"


class Scripted:
    """Answers every request alike, or raises."""

    def __init__(self, reply: str | BaseException = GOOD, finish: str = "stop") -> None:
        self.reply, self.finish = reply, finish
        self.requests: list[LMRequest] = []

    async def complete(self, request: LMRequest) -> LMReply:
        self.requests.append(request)
        if isinstance(self.reply, BaseException):
            raise self.reply
        return LMReply(self.reply, finish_reason=self.finish)


def ask(world: World, lm: Scripted, times: int = 1) -> tuple[str, list[str]]:
    failures: list[str] = []
    with borrowed(Engine(Reflector(world.context(lm, seed=5), "tool_calling"), failures)):
        said = [dspy.Predict("question -> answer")(question="How {many}?").answer for _ in range(times)]
    assert len(set(said)) == 1
    return said[0], failures


def test_a_call_is_a_request_on_our_ledger(world: World) -> None:
    lm = Scripted()
    assert ask(world, lm) == ("Forty {two}", [])
    request = lm.requests[0]
    assert request.model == "simulated/default"
    assert (request.seed, request.repeat, request.schema) == (5, 0, None)
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.messages[1].content.startswith("[[ ## question ## ]]\nHow {many}?\n\n")
    assert all(isinstance(message, Message) for message in request.messages)


def test_an_equal_prompt_is_a_new_repeat_and_nothing_is_cached(world: World) -> None:
    lm = Scripted()
    ask(world, lm, times=3)
    assert [request.repeat for request in lm.requests] == [0, 1, 2]
    assert len({request.messages for request in lm.requests}) == 1


@pytest.mark.parametrize(
    ("lm", "failures"),
    [
        (Scripted("Forty two."), []),
        (Scripted(GOOD, finish="length"), ["the reply was cut off or empty"]),
        (Scripted(LMError("timeout", "gone")), ["no reply (gone)"]),
        (Scripted(""), ["the reply was cut off or empty"]),
    ],
)
def test_a_reply_that_is_none_is_empty_after_one_call(world: World, lm: Scripted, failures: list[str]) -> None:
    assert ask(world, lm) == ("", failures)
    assert len(lm.requests) == 1


@pytest.mark.parametrize("cause", [BudgetExhausted("no more"), NotInLedger("replay"), ZeroDivisionError("a bug")])
def test_what_must_end_the_search_is_swallowed_by_nothing(world: World, cause: Exception) -> None:
    lm = Scripted(cause)
    with pytest.raises(Stopped) as raised:
        ask(world, lm)
    assert raised.value.cause is cause
    assert not isinstance(raised.value, Exception)
    assert len(lm.requests) == 1


def state() -> list[Any]:
    from dspy.clients.base_lm import GLOBAL_HISTORY

    settings = dspy.settings
    return [
        settings.lm,
        settings.adapter,
        settings.disable_history,
        logging.getLogger("dspy").level,
        optuna.logging.get_verbosity(),
        len(GLOBAL_HISTORY),
        "cache" in vars(dspy),
    ]


@pytest.mark.parametrize("work", [lambda: None, lambda: 1 // 0])
def test_settings_are_afterwards_as_they_were(world: World, work: Callable[[], None]) -> None:
    before = state()
    try:
        with borrowed(Engine(Reflector(world.context(Scripted()), "tool_calling"), [])):
            dspy.Predict("question -> answer")(question="Why?")
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            assert state()[:-1] != before[:-1]
            work()
    except ZeroDivisionError:
        pass
    assert state() == before
