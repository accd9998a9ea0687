"""Tests of the way to a model: what is loaded when, who answers, what it costs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Budget, Price, Usage
from judges.ledger.ledger_lm import LedgerLM, NotInLedger
from judges.lm import BudgetExhausted, JudgeError, LMReply, LMRequest, Message
from judges.models.connect import is_simulated, open_lm

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

    Servers = type[ScriptedServer]

SIMULATED = LMRequest("simulated/default", (Message("system", "x"), Message("user", "# Task\nJudge: holistic")))


def ask(lm: LedgerLM, *requests: LMRequest) -> list[LMReply | BaseException]:
    async def at_once() -> list[LMReply | BaseException]:
        return await asyncio.gather(*(lm.complete(request) for request in requests), return_exceptions=True)

    return asyncio.run(at_once())


def real(server: ScriptedServer, **changes: Any) -> LMRequest:
    values = {"model": "openai/any-model", "endpoint": server.endpoint, **changes}
    return LMRequest(messages=(Message("user", "x" * 400),), max_tokens=100, **values)


def test_names_of_simulated_models() -> None:
    assert is_simulated("simulated/default")
    assert not is_simulated("openai/simulated")


def test_a_simulated_model_costs_nothing_and_needs_no_network(tmp_path: Path) -> None:
    with open_lm(tmp_path / "ledger.sqlite", "run", Budget(dollars=0.0)) as lm:
        (reply,) = ask(lm, SIMULATED)
        assert isinstance(reply, LMReply)
        assert (reply.cost, reply.replayed, bool(reply.text)) == (0.0, False, True)
        assert lm.spent() == Usage(1, reply.prompt_tokens + reply.completion_tokens, 0.0)


def test_a_real_model_over_http_is_paid_once(
    tmp_path: Path, scripted_server: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sentinel-0123456789")
    path = tmp_path / "ledger.sqlite"
    prices = {"openai/any-model": Price(input=1000.0, output=2000.0)}
    with scripted_server(lambda _: "fine") as server:
        for _ in range(2):
            with open_lm(path, "run", Budget(dollars=10.0), prices) as lm:
                replies = ask(lm, *[real(server)] * 4, real(server, repeat=1))
                assert [reply.text for reply in replies if isinstance(reply, LMReply)] == ["fine"] * 5
                assert lm.spent() == Usage(2, 240, 2 * (100 * 1000 + 20 * 2000) / 1e6)
        assert len(server.requests) == 2
    with open_lm(path, "other", mode="replay") as lm:
        assert isinstance(ask(lm, real(server, repeat=1))[0], LMReply)
        assert isinstance(ask(lm, real(server, repeat=2))[0], NotInLedger)
    assert b"sentinel" not in path.read_bytes()


def test_a_cap_in_dollars_holds_over_http(tmp_path: Path, scripted_server: Servers) -> None:
    """Reservations are larger than what a call takes, so the run stops within one reservation of the cap."""
    prices = {"openai/any-model": Price(input=500.0, output=2500.0)}
    with scripted_server(lambda _: "fine") as server, open_lm(tmp_path / "l", "run", Budget(dollars=1.0), prices) as lm:
        ends = ask(lm, *(real(server, repeat=repeat) for repeat in range(32)))
        spent = lm.spent()
    assert sum(isinstance(end, LMReply) for end in ends) == len(server.requests) == spent.calls
    assert all(isinstance(end, LMReply | BudgetExhausted) for end in ends)
    assert 1.0 - 0.4 <= spent.cost <= 1.0


def test_an_unknown_price_under_a_cap_is_refused_before_anything_is_sent(
    tmp_path: Path, scripted_server: Servers
) -> None:
    with scripted_server(lambda _: "x") as server, open_lm(tmp_path / "l", "run", Budget(dollars=1.0)) as lm:
        (end,) = ask(lm, real(server))
        assert isinstance(end, JudgeError)
        assert "openai/any-model" in str(end)
        assert server.requests == []


def test_what_an_endpoint_does_not_take_is_reported(
    tmp_path: Path, scripted_server: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    def script(body: dict[str, Any]) -> Any:
        return scripted_server.error(400, "no") if "response_format" in body else "{}"

    with scripted_server(script) as server, open_lm(tmp_path / "l", "run") as lm:
        ask(lm, real(server, schema={"type": "object"}))
        assert ["takes no reply format above text" in record.getMessage() for record in caplog.records] == [True]


def test_nothing_heavy_is_imported_before_it_is_needed(tmp_path: Path) -> None:
    code = """
import asyncio, sys
import judges.models.connect
heavy = {"litellm", "openai", "aiohttp", "httpx", "numpy"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
from judges.lm import LMRequest, Message
from judges.models.connect import open_lm
with open_lm(sys.argv[1], "run") as lm:
    asyncio.run(lm.complete(LMRequest("simulated/default", (Message("user", "x"),))))
heavy -= {"numpy"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "ledger.sqlite")]
    run = subprocess.run(
        command, cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("empty", [False, True])
def test_a_ledger_that_was_lost_is_not_a_fresh_budget(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, empty: bool
) -> None:
    path = tmp_path / "ledger.sqlite"
    with open_lm(path, "run", Budget(calls=1)) as lm:
        ask(lm, SIMULATED)
    open_lm(path, "run", Budget(calls=1)).close()
    path.unlink()
    if empty:
        path.touch()
    for budget in (Budget(calls=1), Budget(tokens=1), Budget(dollars=1)):
        with pytest.raises(JudgeError, match=r"ledger\.sqlite is gone or empty.*delete .*ledger\.spent to begin anew"):
            open_lm(path, "run", budget)
    assert caplog.records == []
    open_lm(path, "run").close()
    assert [record.getMessage().count("no longer known") for record in caplog.records] == [1]
    open_lm(path, "run", Budget(calls=1)).close()
    path.unlink()
    (tmp_path / "ledger.spent").unlink()
    open_lm(path, "run", Budget(calls=1)).close()


def test_a_replay_leaves_no_note(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    open_lm(path, "run").close()
    (tmp_path / "ledger.spent").unlink()
    open_lm(path, "run", mode="replay").close()
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.sqlite"]
