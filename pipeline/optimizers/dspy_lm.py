"""The reflection model as a DSPy language model, on our ledger and budget. Needs the dspy library."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import dspy
from dspy.lm15 import Message as Said
from dspy.lm15 import Response, TextPart, Usage

from judges.ledger.ledger_lm import NotInLedger
from judges.lm import LMError, Message
from pipeline.optimizers.reflection import Reflector

T = TypeVar("T")
_NO_REPLY = "(no reply)"
"""Holds no field. dspy takes a reply without any text for an error, prints it, and proposes nothing more."""


class Stopped(BaseException):
    """What must end a search. dspy takes any `Exception` for a bad candidate of score 0, and goes on: this is none."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def unswallowed(work: Callable[[], T]) -> T:
    """What `work` returns.

    Raises:
        Stopped: it raised.
    """
    try:
        return work()
    except Exception as error:  # the worker edge: raised again, as it is, when dspy has been left
        raise Stopped(error) from error


class Engine:
    """A dspy engine that asks the reflection model, and notes in `failures` why replies are missing."""

    def __init__(self, reflector: Reflector, failures: list[str]) -> None:
        self.reflector = reflector
        self.failures = failures

    def complete(self, request: Any) -> Any:
        """The reply as dspy's `Response`, without any field where the model gave no whole one.

        Raises:
            Stopped: the budget is used up, or a replay lacks the reply.
        """
        said = [Message(message.role, message.text) for message in request.messages]
        messages = [Message("system", str(request.system)), *said] if request.system else said
        text = unswallowed(lambda: self._ask(messages))
        reply = Said.assistant([TextPart(text or _NO_REPLY)])
        return Response(id=None, model=request.model, message=reply, finish_reason="stop", usage=Usage())

    def close(self) -> None: ...

    def _ask(self, messages: list[Message]) -> str:
        try:
            text = self.reflector.ask(*messages)
        except NotInLedger:
            raise
        except LMError as error:
            self.failures.append(f"no reply ({error})")
            return ""
        if not text:
            self.failures.append("the reply was cut off or empty")
        return text


class Adapter(dspy.ChatAdapter):  # type: ignore[misc]
    """dspy's prompts in its chat form. A reply without the wanted fields has empty ones: no second call, no error."""

    def __init__(self) -> None:
        super().__init__(use_json_adapter_fallback=False)

    def parse(self, signature: Any, completion: str) -> dict[str, Any]:
        try:
            fields: dict[str, Any] = super().parse(signature, completion)
        except dspy.AdapterParseError:
            return dict.fromkeys(signature.output_fields, "")
        return fields


@contextmanager
def borrowed(engine: Engine) -> Iterator[Any]:
    """dspy with this engine as its language model, which it yields.

    dspy neither caches nor retries (the ledger and our client do) nor keeps a history nor logs its progress, and what
    it and optuna have of global settings is afterwards as it was before.
    """
    import optuna

    log = logging.getLogger("dspy")
    levels = log.level, optuna.logging.get_verbosity()
    log.setLevel(logging.ERROR)
    lm = dspy.LM("gpa-judges/reflection", engine=engine, cache=False, num_retries=0)
    try:
        with dspy.context(lm=lm, adapter=Adapter(), disable_history=True):
            yield lm
    finally:
        log.setLevel(levels[0])
        optuna.logging.set_verbosity(levels[1])
