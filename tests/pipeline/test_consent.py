"""Tests of the question before much is spent."""

from __future__ import annotations

import io
import sys

import pytest

from judges.ledger.budget import Budget
from pipeline.config import PipelineError
from pipeline.consent import Consent

DEAR = 12.3
NO_CAP = Budget(calls=10_000, tokens=10**9)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ask(monkeypatch: pytest.MonkeyPatch, answer: str, consent: Consent | None = None) -> str:
    """What was asked."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", screen)
    (consent or Consent()).ask(DEAR, NO_CAP)
    return screen.getvalue()


@pytest.mark.parametrize("answer", ["y\n", "Yes\n", " YES "])
def test_yes(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    said = ask(monkeypatch, answer)
    assert said == "about 12.30 dollars are expected, more than 10 (ask_above). Go on? [y/N] "


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "yup\n"])
def test_all_else_is_no(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    with pytest.raises(PipelineError, match="not started, as you said: nothing was spent"):
        ask(monkeypatch, answer)


@pytest.mark.parametrize("closed", ["stdin", "stderr"])
@pytest.mark.parametrize("stream", [None, io.StringIO("y\n")])
def test_without_a_terminal_it_says_what_to_add(
    monkeypatch: pytest.MonkeyPatch, closed: str, stream: io.StringIO | None
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(sys, closed, stream)
    with pytest.raises(PipelineError, match=r"about 12.30 dollars .*no terminal.*--yes.*--max-dollars.*--ask-above"):
        Consent().ask(DEAR, NO_CAP)


@pytest.mark.parametrize(
    ("dollars", "budget", "consent"),
    [
        (0.0, NO_CAP, Consent()),
        (0.0, NO_CAP, Consent(0.0)),
        (DEAR, Budget(dollars=1000), Consent()),
        (DEAR, NO_CAP, Consent(12.3)),
        (DEAR, NO_CAP, Consent(None)),
        (DEAR, NO_CAP, Consent(given=True)),
    ],
    ids=["nothing", "above nothing", "capped", "below", "never", "given"],
)
def test_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, dollars: float, budget: Budget, consent: Consent) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    consent.ask(dollars, budget)


UNKNOWN = {"openai/x"}


def test_an_unknown_price_is_asked_about_unless_there_is_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    for cap in (Budget(calls=1), Budget(tokens=1), Budget(dollars=1)):
        Consent().ask(0.0, cap, UNKNOWN)
    Consent(None).ask(0.0, Budget(), UNKNOWN)
    Consent(given=True).ask(0.0, Budget(), UNKNOWN)
    said = (
        r"price of openai/x is unknown.*nothing was spent: accepted are --price.*prices.*--max-calls N.*budget.*--yes"
    )
    with pytest.raises(PipelineError, match=said):
        Consent().ask(0.0, Budget(), UNKNOWN)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    monkeypatch.setattr(sys, "stderr", screen)
    Consent().ask(0.0, Budget(), UNKNOWN)
    assert screen.getvalue().endswith("nobody knows what this will cost. Go on? [y/N] ")
