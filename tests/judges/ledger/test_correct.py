"""Another reply in the place of the first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from judges.ledger.budget import Usage, reserved_tokens
from judges.ledger.correct import correct
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import LMReply

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]


def test_a_correction_costs_what_it_tells_and_takes_nothing_back(ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(), ledger, "run")
    asked = counting_model.request()
    assert lm.answer(asked, LMReply("wrong", "stop", 4, 2, cost=0.5))
    correct(ledger.path, "run", asked, LMReply("right", "length", 7, 3))
    assert ledger.find(asked.key) == LMReply("right", "length", 7, 3, cost=0.5, replayed=True)
    correct(ledger.path, "other", asked, LMReply("better", "stop", 7, 3, cost=0.25))
    assert ledger.find(asked.key) == LMReply("better", "stop", 7, 3, cost=0.75, replayed=True)
    assert (lm.spent(), ledger.spent("other").cost, lm.kept()) == (Usage(1, 6, 0.5), 0.25, 1)


@pytest.mark.parametrize("price", [None, 0.125])
def test_an_unknown_cost_stays_unknown(price: float | None, ledger: Ledger, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(), ledger, "run", cost_of=lambda *_: price)
    asked = counting_model.request()
    assert lm.answer(asked, LMReply("wrong"))
    before = lm.spent()
    assert before == Usage(1, sum(reserved_tokens(asked)), price or 0.0, unpriced=price is None)
    correct(ledger.path, "run", asked, LMReply("right", cost=0.0))
    assert lm.spent() == before
    found = ledger.find(asked.key)
    assert found is not None
    assert (found.text, found.cost) == ("right", None)


def test_what_is_not_there_is_filed(tmp_path: Path, counting_model: Models) -> None:
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        asked = counting_model.request()
        correct(ledger.path, "run", asked, LMReply("new", "stop", 4, 2, cost=0.5))
        assert ledger.find(asked.key) == LMReply("new", "stop", 4, 2, cost=0.5, replayed=True)
        assert ledger.spent("run").cost == 0.5
