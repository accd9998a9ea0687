from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.program import seed_suite
from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from pipeline.cli import main

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    seed_suite(dimensions=("tool_calling",)).save(tmp_path / "judges")
    Dataset(rate(simulate(6, 0), 0)).save(tmp_path / "data.jsonl")


def evaluate(server: ScriptedServer, *more: str) -> int:
    judges = ["--judges", "judges", "--model", "openai/any", "--endpoint", server.endpoint, "--out", "found"]
    return main(["evaluate", "data.jsonl", *judges, *more])


def test_replies_that_cannot_be_used_are_no_result(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_server(lambda _: "nothing to say") as server:
        assert evaluate(server, "--json") == 3
    document: Any = json.loads(capsys.readouterr().out)
    assert document["error"]["kind"] == "NoUsableReply"
    assert "not one of 6 judgments can be used (6 unparseable)" in document["error"]["message"]
    assert "the reply cannot be used: " in document["error"]["message"]  # the first one's detail
    assert Path("found/judgments.jsonl").read_text().count('"unparseable"') == 6


def test_one_reply_that_can_be_used_is_a_result(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    clean = json.dumps({"rationale": "fine", "findings": [], "score": 3})
    with scripted_server(scripted_server.in_turn(clean, "nothing to say")) as server:
        assert evaluate(server, "--concurrency", "1") == 0
    assert "Judgments: 1 scored, 5 unparseable" in capsys.readouterr().out


def test_what_was_dropped_in_reading_is_summed_on_the_screen(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    """A judge that names no dimension loses its findings: without a word it would be one without false alarms."""
    finding = {"span_ids": [], "explanation": "x", "evidence": "", "severity": "high", "confidence": 90}
    reply = json.dumps({"rationale": "bad", "findings": [finding], "score": 0})
    with scripted_server(lambda _: reply) as server:
        holistic = ["--holistic", "--model", "openai/any", "--endpoint", server.endpoint, "--json"]
        assert main(["evaluate", "data.jsonl", *holistic]) == 0
    said = capsys.readouterr()
    assert "WARNING, replies that were repaired in reading: 6 x a finding names no known dimension: dropped" in said.err
    assert json.loads(said.out)["warnings"]["a finding names no known dimension: dropped"] == 6


@pytest.mark.parametrize("model", ["simulated/defalt", "opnai/gpt-5"])
def test_a_model_that_does_not_exist_leaves_no_folder(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "data.jsonl", "--model", model]) == 2
    assert model in capsys.readouterr().err
    assert not Path("runs").exists()


def test_an_unknown_price_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "data.jsonl", "--model", "openai/x", "--max-dollars", "1"]) == 2
    assert "the price of openai/x is unknown" in (said := capsys.readouterr().err)
    assert "--price" in said
    assert not Path("runs").exists()


CLEAN = json.dumps({"rationale": "fine", "findings": [], "score": 3})
DEAR = ("--price", "10000", "10000")


def test_a_large_cost_needs_consent_and_a_no_leaves_nothing(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    with scripted_server(lambda _: CLEAN) as server:
        assert evaluate(server, *DEAR) == 2
        said = capsys.readouterr().err
        assert "no terminal to ask at, so nothing was spent" in said
        assert "--yes" in said
        assert evaluate(server, *DEAR, "--ask-above", "5") == 2
        assert server.requests == []
        assert not Path("found").exists()
        # With other settings into the same folder: nothing of the first start is in the way.
        assert evaluate(server, *DEAR, "--repeats", "2", "--yes") == 0
        assert len(server.requests) == 12
        # What is in the ledger costs nothing, so it is not asked about.
        assert evaluate(server, *DEAR, "--repeats", "2") == 0
        assert "cost: nothing: all 12 calls are in the ledger" in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--max-dollars", "2000"), ("--ask-above", "2000")])
def test_a_cap_in_dollars_or_a_higher_limit_is_consent(scripted_server: type[ScriptedServer], more: list[str]) -> None:
    with scripted_server(lambda _: CLEAN) as server:
        assert evaluate(server, *DEAR, *more) == 0


def test_a_cap_in_tokens(scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]) -> None:
    with scripted_server(lambda _: CLEAN) as server:
        assert evaluate(server, "--max-tokens", "15000", "--concurrency", "1") == 4
        assert 0 < len(server.requests) < 6
    assert "of 15,000 tokens are used up" in capsys.readouterr().err


def test_the_cost_is_said_before_and_beside_what_was_spent(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    usage = {"prompt_tokens": 3000, "completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 1500}}
    answer = scripted_server.answer(body=scripted_server.chat(CLEAN, usage=usage))
    with scripted_server(lambda _: answer) as server:
        assert evaluate(server, "--price", "100", "1000", "10") == 0
    ran = capsys.readouterr()
    assert "cost: up to about 6 calls, " in ran.err
    spent = 6 * (1500 * 100 + 1500 * 10 + 200 * 1000) / 1e6
    assert f"spent now: 6 calls, 19.2 thousand tokens, {spent:.2f} dollars; expected were 6 and " in ran.err
    assert "19,200 tokens (50% of the prompts' from the provider's cache), " in ran.out


@pytest.mark.parametrize("price", [("1",), ("1", "2", "0.5", "3")])
def test_a_price_has_two_or_three_numbers(price: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "data.jsonl", "--model", "openai/x", "--price", *price]) == 2
    assert "accepted are 2 or 3 numbers (IN OUT [CACHED])" in capsys.readouterr().err


def test_what_is_assumed_of_the_cost_is_told(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    """The server tells no usage, so each call counts as the most that it can have cost."""
    with scripted_server(lambda _: scripted_server.answer(body=scripted_server.chat(CLEAN, usage=None))) as server:
        assert evaluate(server, "--price", "1", "1") == 0
    said = capsys.readouterr()
    assert "of them assumed for 6 calls whose cost is not known (" in said.err, "spent now"
    assert "of them assumed for 6 calls whose cost is not known (" in said.out, "Cost"


def test_calls_that_failed_are_the_first_next_step(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = scripted_server.error(401, "no")
    with scripted_server(scripted_server.in_turn(CLEAN, bad, CLEAN, CLEAN, CLEAN, CLEAN)) as server:
        assert evaluate(server, "--concurrency", "1") == 0
    said = capsys.readouterr().out
    hint = "1 judgment was not made (provider_error): start the same command again, it asks only for these"
    assert hint in said
    assert said.index(hint) < said.index("Next, to tune them")


def test_traces_that_are_too_long_name_the_option_that_shortens_them(
    scripted_server: type[ScriptedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    long = scripted_server.error(400, "the prompt is too long for the context window")
    with scripted_server(lambda _: long) as server:
        assert evaluate(server, "--trace-tokens", "300") == 3
        assert max(len(str(request)) for request in server.requests) < 20_000
    said = capsys.readouterr().err
    assert "--trace-tokens N (in a file judges.trace_tokens) shortens traces" in said
    assert "reply format" not in said
    with scripted_server(scripted_server.in_turn(CLEAN, long)) as server:
        assert evaluate(server, "--concurrency", "1", "--force") == 0
    assert "(too_long), 5 x: --trace-tokens N" in capsys.readouterr().out


def test_a_missing_key_is_found_before_anything_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert main(["evaluate", "data.jsonl", "--model", "openai/gpt-5"]) == 2
    said = capsys.readouterr().err
    assert "OPENAI_API_KEY is not in the environment" in said
    assert "cost:" not in said
    assert not Path("runs").exists()


def test_a_replay_without_a_ledger_leaves_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "data.jsonl", "--model", "openai/gpt-5", "--replay"]) == 2
    assert "ledger" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_timeout_of_0_is_refused_by_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "data.jsonl", "--model", "openai/gpt-5", "--timeout", "0"]) == 2
    assert "--timeout: '0' is not accepted: a number of seconds above 0 is" in capsys.readouterr().err
