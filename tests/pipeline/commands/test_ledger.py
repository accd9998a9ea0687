"""Tests of `gpa-judges ledger`, and of evaluations on a ledger of their choice or without a call."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.simulated import rate, simulate
from pipeline.cli import main

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer
    from tests.postgres_server import PostgresServer

SECRET = "hunter2hunter2"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Dataset(rate(simulate(4, 0), 0)).save(tmp_path / "data.jsonl")


class Ran:
    def __init__(self, capsys: pytest.CaptureFixture[str], *argv: object) -> None:
        self.code = main([*map(str, argv), "--json"])
        self.out, self.err = capsys.readouterr()
        self.document: Any = json.loads(self.out)


def evaluate(capsys: pytest.CaptureFixture[str], *more: object) -> Ran:
    return Ran(capsys, "evaluate", "data.jsonl", "--model", "simulated/default", *more)


def numbers(ran: Ran) -> Any:
    return {name: value for name, value in ran.document.items() if name not in ("calls", "tokens", "judgments")}


def test_a_replay_gives_the_same_numbers_without_a_call(capsys: pytest.CaptureFixture[str]) -> None:
    live = evaluate(capsys, "--out", "found")
    ledger = Path("found/ledger.sqlite")
    before = ledger.read_bytes()
    assert evaluate(capsys, "--out", "found", "--replay").document == live.document
    again = evaluate(capsys, "--out", "other", "--replay", "--ledger", ledger)
    assert (again.code, numbers(again)) == (0, numbers(live))
    assert ledger.read_bytes() == before
    assert sorted(path.name for path in Path("other").iterdir()) == [
        "judgments.jsonl",
        "measurement.json",
        "metrics.json",
    ]


def test_a_replay_says_how_much_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    calls = evaluate(capsys, "--out", "found").document["calls"]
    ran = evaluate(capsys, "--out", "other", "--ledger", "found/ledger.sqlite", "--replay", "--seed", "7")
    assert ran.code == 2
    error = ran.document["error"]
    assert error["kind"] == "PipelineError"
    assert f"{calls} of {calls} calls are not in the ledger found/ledger.sqlite" in error["message"]
    assert "--replay" in error["message"]
    assert evaluate(capsys, "--out", "third", "--replay").code == 2
    assert "there is no ledger" in evaluate(capsys, "--out", "third", "--replay").document["error"]["message"]


@pytest.mark.parametrize("shared", ["sqlite", "postgresql"])
def test_evaluations_share_a_ledger_and_not_their_budgets(
    shared: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    postgres: PostgresServer | None = request.getfixturevalue("postgres") if shared == "postgresql" else None
    place = "shared.sqlite" if postgres is None else postgres.empty()
    first = evaluate(capsys, "--ledger", place, "--max-calls", "1000")
    assert first.document["calls"] > 20
    resumed = evaluate(capsys, "--ledger", place, "--max-calls", "1000")
    assert resumed.document == first.document
    assert "cost nothing" in resumed.err or "cost: nothing" in resumed.err
    other = evaluate(capsys, "--ledger", place, "--repeats", "2", "--max-calls", "1000")
    assert 0 < other.document["calls"] < 2 * first.document["calls"], "the first reading of each trace was there"
    found = Ran(capsys, "ledger", "stats", place).document
    assert sorted(run["account"]["calls"] for run in found["runs"].values()) == sorted(
        (first.document["calls"], other.document["calls"])
    )
    assert not list(Path("runs").rglob("ledger.sqlite"))


def test_a_ledger_is_told_moved_and_pruned(capsys: pytest.CaptureFixture[str], postgres: PostgresServer) -> None:
    live = evaluate(capsys, "--out", "found")
    ledger, url = "found/ledger.sqlite", postgres.empty()
    calls = live.document["calls"]
    assert Ran(capsys, "ledger", "stats", ledger).document["runs"]["run"]["account"]["calls"] == calls
    assert main(["ledger", "stats", ledger]) == 0
    told = capsys.readouterr().out
    assert f"{calls} replies" in told
    assert "simulated/default" in told
    assert Ran(capsys, "ledger", "export", ledger, "replies.jsonl").document["replies"] == calls
    assert Ran(capsys, "ledger", "export", ledger, "replies.jsonl").code == 2
    assert Ran(capsys, "ledger", "export", ledger, "replies.jsonl", "--force").code == 0
    moved = Ran(capsys, "ledger", "import", "replies.jsonl", url)
    assert moved.document == {"new": calls, "known": 0, "ledger": url}
    assert Ran(capsys, "ledger", "import", "replies.jsonl", url).document["known"] == calls
    replayed = evaluate(capsys, "--out", "there", "--replay", "--ledger", url)
    assert numbers(replayed) == numbers(live)
    assert replayed.document["calls"] == 0, "charged to no run"
    assert Ran(capsys, "ledger", "prune", url).code == 2
    counted = Ran(capsys, "ledger", "prune", url, "--older-than", "0").document
    assert (counted["replies"], counted["removed"]) == (calls, False)
    assert Ran(capsys, "ledger", "stats", url).document["replies"] == calls
    assert Ran(capsys, "ledger", "prune", url, "--older-than", "0", "--yes").document["removed"]
    assert Ran(capsys, "ledger", "stats", url).document["replies"] == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("ledger", "stats"),
        ("ledger", "prune"),
        ("ledger", "import", "replies.jsonl"),
        ("evaluate", "data.jsonl", "--model", "simulated/default", "--ledger"),
    ],
)
def test_a_password_in_a_url_is_never_shown(argv: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, *argv, f"postgresql://me:{SECRET}@127.0.0.1:1/db")
    assert ran.code == 2
    assert "holds a password" in ran.document["error"]["message"]
    assert SECRET not in ran.out + ran.err


def test_a_ledger_that_is_not_there_is_not_made(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (("stats", "no.sqlite"), ("export", "no.sqlite", "x.jsonl"), ("prune", "no.sqlite", "--failed")):
        assert Ran(capsys, "ledger", *argv).code == 2
    assert Ran(capsys, "ledger", "import", "no.jsonl", "no.sqlite").code == 2
    assert not Path("no.sqlite").exists()
    assert not Path("x.jsonl").exists()


def test_prune_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate(capsys, "--out", "found")
    for option, there in (("--run", "its runs, run"), ("--model", "its models, simulated/default")):
        ran = Ran(capsys, "ledger", "prune", "found/ledger.sqlite", option, "nope")
        assert ran.code == 2
        assert f"{option} nope: " in ran.document["error"]["message"]
        assert ran.document["error"]["message"].endswith(there)
        assert Ran(capsys, "ledger", "prune", "found/ledger.sqlite", option, there.split(", ")[1]).code == 0


def test_stats_tell_ages_and_what_is_not_known(
    capsys: pytest.CaptureFixture[str], scripted_server: type[ScriptedServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    clean = json.dumps({"rationale": "fine", "findings": [], "score": 3})
    told = scripted_server.answer(body=scripted_server.chat(clean, usage=None))
    for name, price in (("unpriced", ()), ("priced", ("--price", "1", "1"))):
        with scripted_server(lambda _: told) as server:
            model = ("--model", "openai/any", "--endpoint", server.endpoint, *price)
            assert main(["evaluate", "data.jsonl", *model, "--out", name]) == 0
        assert main(["ledger", "stats", f"{name}/ledger.sqlite"]) == 0
    unpriced, priced = capsys.readouterr().out.split("unpriced/ledger.sqlite: ")[1].split("priced/ledger.sqlite: ")
    assert re.search(r" from \d+ seconds to \d+ seconds ago", priced)
    run = next(line.split() for line in unpriced.splitlines() if line.startswith("run "))
    assert run[-2:] == ["unknown", "unknown"]
    head, rule, row = priced.split("by run")[1].splitlines()[1:4]
    assert head.split()[-4:] == ["failed", "spent", "dollars", "assumed"]
    assert len(rule) == max(len(head), len(row))
    assert row.split()[-1] == row.split()[-2] != "0.0000"


def test_a_ledger_in_a_folder_that_does_not_exist_is_a_slip(capsys: pytest.CaptureFixture[str]) -> None:
    ran = evaluate(capsys, "--ledger", "nodir/x.sqlite")
    assert ran.code == 2
    assert "there is no folder nodir: accepted is a file in one that exists" in ran.document["error"]["message"]
    assert not Path("nodir").exists()


def test_a_database_that_does_not_exist_is_to_be_made(
    capsys: pytest.CaptureFixture[str], postgres: PostgresServer
) -> None:
    message = Ran(capsys, "ledger", "stats", postgres.url("nowhere")).document["error"]["message"]
    assert message.endswith("make it first: createdb nowhere")
    assert "postgresql://tester@127.0.0.1" in message, "a user is no secret"
