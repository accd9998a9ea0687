"""Tests of the ledger's rows: damage, and what is stored."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import JudgeError, LMReply, Message

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]
    RunSql = Callable[..., list[Any]]

NO_PROCESS = 2**22 + 1  # above the largest process id of Linux


def test_a_ledger_is_told_from_one_that_took_its_place(
    place: Path | str, ledger: Ledger, counting_model: Models, run_sql: RunSql
) -> None:
    with Ledger(place, read_only=True) as replay:
        assert replay.identity() == "", "a replay writes nothing"
    first = ledger.identity()
    asyncio.run(LedgerLM(counting_model(), ledger, "run").complete(counting_model.request()))
    for read_only in (False, True):
        with Ledger(place, read_only) as again:
            assert again.identity() == ledger.identity() == first
    ledger.close()
    if isinstance(place, Path):
        place.unlink()
    else:
        run_sql(place, "DROP SCHEMA gpa_judges CASCADE")
    with Ledger(place) as other:
        assert other.identity() not in (first, "")


# Damage

ANY_TYPE = (
    "text = X'FF00FF'",
    "finish_reason = NULL",
    "finish_reason = X'FF'",
    "finish_reason = CAST(X'FF' AS TEXT)",
    "prompt_tokens = 'many'",
    "completion_tokens = NULL",
    "cached_tokens = X'00'",
    "cost = 'dear'",
    "status = 'pending', owner = 'nonsense', started = 'yesterday'",
)


@pytest.mark.parametrize(
    "damage",
    [
        "text = NULL",
        "status = 'nonsense'",
        "status = 'pending', owner = 'nonsense'",
        *ANY_TYPE,
    ],
)
def test_a_damaged_row_is_made_again(ledger: Ledger, damage: str, counting_model: Models, run_sql: RunSql) -> None:
    if damage in ANY_TYPE and isinstance(ledger.path, str):
        pytest.skip("a column of PostgreSQL holds values of its type alone")
    model = counting_model()
    lm = LedgerLM(model, ledger, "run")
    counting_model.ask(lm, counting_model.request(0), counting_model.request(1))
    run_sql(ledger.path, f"UPDATE calls SET {damage} WHERE key = ?", counting_model.request(0).key)
    replies = counting_model.ask(lm, counting_model.request(0), counting_model.request(1), counting_model.request(0))
    assert [reply.text for reply in replies] == ["reply 0"] * 3
    assert [reply.replayed for reply in replies] == [False, True, True]
    assert len(model.asked) == 3


def test_a_closed_ledger_says_so(place: Path | str, counting_model: Models) -> None:
    lm = LedgerLM(counting_model(), Ledger(place), "run")
    lm.close()
    lm.close()
    with pytest.raises(JudgeError, match="closed"):
        counting_model.ask(lm, counting_model.request())


def test_a_forked_process_must_open_its_own(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(JudgeError, match="forked"):
        ledger.spent("run")


# What is stored


def test_little_is_stored_of_the_request_and_nothing_secret(
    place: Path | str, monkeypatch: pytest.MonkeyPatch, counting_model: Models, run_sql: RunSql
) -> None:
    secret = "sk-sentinel-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    asked = counting_model.request(
        messages=(Message("system", "S" * 50_000), Message("user", "U" * 50_000)),
        endpoint=f"https://me:{secret}@host.example:8443/v1?key={secret}",
        seed=4,
        repeat=2,
    )
    with LedgerLM(counting_model(), Ledger(place), "run") as lm:
        counting_model.ask(lm, *(replace(asked, repeat=repeat) for repeat in range(20)))
        (about,) = run_sql(place, "SELECT about FROM calls WHERE key = ?", replace(asked, repeat=2).key)[0]
    assert json.loads(about) == {
        "model": "openai/m",
        "endpoint": "https://host.example:8443/v1",
        "temperature": 0.0,
        "max_tokens": 100,
        "seed": 4,
        "repeat": 2,
        "characters": [50_000, 50_000],
    }
    rows = str(run_sql(place, "SELECT * FROM calls"))
    assert secret not in rows
    assert len(rows) < 20_000
    if isinstance(place, Path):
        assert secret.encode() not in place.read_bytes()
        assert place.stat().st_size < 100_000


def test_requests_are_kept_where_that_is_asked_for(place: Path | str, counting_model: Models) -> None:
    asked = counting_model.request(messages=(Message("user", "a\ud83d" + "long " * 1000),), schema={"type": "object"})
    with Ledger(place, keep_requests=True) as ledger:
        counting_model.ask(LedgerLM(counting_model(), ledger, "run"), asked)
        kept = ledger.request(asked.key)
        assert kept == asked
        assert ledger.request("unknown") is None


def test_texts_that_a_database_refuses_are_kept(ledger: Ledger, counting_model: Models) -> None:
    odd = "a\0b\ud83d"
    lm = LedgerLM(counting_model(lambda _: LMReply(odd, odd, 1, 1, sent=odd)), ledger, "run")
    live, kept = counting_model.ask(lm, *[counting_model.request(0)] * 2)
    assert (live.text, kept.text, kept.finish_reason) == (odd, odd, "a\\0b\\ud83d")
    assert kept.sent == kept.finish_reason
