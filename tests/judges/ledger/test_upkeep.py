"""Tests of what a ledger holds in numbers, of its replies in other ledgers, and of making it smaller."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.ledger.budget import Budget, Usage
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.ledger.steps import Reserve
from judges.ledger.transfer import Imported, export, import_replies
from judges.ledger.upkeep import Choice, prune, stats
from judges.lm import BudgetExhausted, JudgeError, LMReply, LMRequest, Message

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel

    Models = type[CountingModel]
    RunSql = Callable[..., list[Any]]
    LeavePending = Callable[..., None]

REPLIES = [
    LMReply("one", "stop", 10, 5, 4, 0.1, reasoning_tokens=2, sent='{"seed": 1}'),
    LMReply("\ud83d\0 two", "length", 20, 6, 0, 0.2),
    LMReply("three", "stop", 0, 0, 0, None),
]


def fill(place: Path | str, model: Models, run: str = "run", keep: bool = False) -> list[LMRequest]:
    asked = [model.request(number, model=f"openai/{'ab'[number // 2]}") for number in range(3)]
    answers = iter(REPLIES)
    with LedgerLM(model(lambda _: next(answers)), Ledger(place, keep_requests=keep), run) as lm:
        model.ask(lm, *asked)
    return asked


def test_what_a_ledger_holds(
    place: Path | str, counting_model: Models, leave_pending: LeavePending, run_sql: RunSql
) -> None:
    fill(place, counting_model)
    with Ledger(place) as ledger:
        leave_pending(ledger, counting_model.request(9), "elsewhere:1:x")
        run_sql(place, "UPDATE calls SET started = started - 100 WHERE status = 'pending'")
        found = stats(place)
    assert found["replies"] == 3
    assert found["bytes"] > 1000
    one = {"prompt_tokens": 30, "cached_tokens": 4, "completion_tokens": 11, "reasoning_tokens": 2, "dollars": 0.3}
    assert found["models"]["openai/a"] == {"replies": 2, **one}
    assert found["models"]["openai/b"]["dollars"] is None
    assert found["runs"]["run"]["dollars"] is None, "one is unknown"
    assert found["runs"]["run"]["account"]["calls"] == 4
    assert (found["pending"]["calls"], found["pending"]["alive"]) == (1, 1)
    assert 100 <= found["pending"]["age"] < 130
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize("keep", [False, True])
def test_replies_go_to_another_ledger_and_back(
    place: Path | str, tmp_path: Path, counting_model: Models, run_sql: RunSql, keep: bool
) -> None:
    asked = fill(place, counting_model, keep=keep)
    file, other = tmp_path / "replies.jsonl", tmp_path / "other.sqlite"
    assert export(place, file) == 3
    assert import_replies(file, other) == Imported(3, 0)
    assert import_replies(file, other) == Imported(0, 3)
    with Ledger(place, read_only=True) as here, Ledger(other) as there:
        for request in asked:
            assert there.find(request.key) == here.find(request.key)
            assert there.request(request.key) == (request if keep else None)
        assert there.spent("run") == Usage(), "charged to no run"
        lm = LedgerLM(counting_model(), there, "run", Budget(calls=0))
        assert [reply.text for reply in counting_model.ask(lm, *asked)] == [reply.text for reply in REPLIES]
        with pytest.raises(BudgetExhausted):
            counting_model.ask(lm, counting_model.request(7))
    # And back, where one was lost meanwhile.
    again = tmp_path / "again.jsonl"
    export(other, again)
    run_sql(place, "DELETE FROM calls WHERE key = ?", asked[0].key)
    assert import_replies(again, place) == Imported(1, 2)
    assert export(place, file) == export(other, again) == 3
    text = file.read_text() + again.read_text()
    lines = [{**json.loads(line), "run": ""} for line in text.splitlines() if "key" in line]
    assert lines[:3] == lines[3:]


def test_no_secret_is_exported(
    place: Path | str, tmp_path: Path, counting_model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-sentinel-0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    asked = counting_model.request(endpoint=f"https://me:{secret}@host.example/v1?key={secret}")
    model = counting_model(lambda _: LMReply("x", "stop", 1, 1, sent=json.dumps({"api_key": secret})))
    with LedgerLM(model, Ledger(place, keep_requests=True), "run") as lm:
        counting_model.ask(lm, asked, replace(asked, endpoint=""))
    assert export(place, tmp_path / "replies.jsonl") == 2
    text = (tmp_path / "replies.jsonl").read_text()
    assert secret not in text
    assert text.count('"request"') == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{}", "line 2: accepted is a line"),
        ("nonsense", "line 2: not JSON"),
        ("[1]", "line 2"),
        ('{"key": 1}', "line 2"),
    ],
)
def test_a_file_that_is_not_an_export(tmp_path: Path, line: str, said: str, counting_model: Models) -> None:
    place, file = tmp_path / "l.sqlite", tmp_path / "replies.jsonl"
    fill(place, counting_model)
    export(place, file)
    head, *rows = file.read_text().splitlines()
    file.write_text("\n".join([head, line, *rows]))
    with pytest.raises(ValueError, match=said):
        import_replies(file, tmp_path / "other.sqlite")
    file.write_text("\n".join(rows))
    with pytest.raises(JudgeError, match="line 1: accepted is a file that `gpa-judges ledger export` wrote"):
        import_replies(file, tmp_path / "other.sqlite")


@pytest.mark.parametrize(
    "change",
    [
        *({"prompt_tokens": -1}, {"cost": -0.1}, {"cost": "x"}, {"text": None}, {"request": {}}),
        *({"key": "\ud83d"}, {"run": "\ud83d"}, {"about": "a\0"}, {"key": ""}),
        *({"finished": value} for value in (float("nan"), float("inf"), -1, None, 10**400)),
    ],
)
def test_a_reply_that_cannot_be(tmp_path: Path, change: dict[str, Any], counting_model: Models) -> None:
    place, file = tmp_path / "l.sqlite", tmp_path / "replies.jsonl"
    fill(place, counting_model)
    export(place, file)
    head, row, *_ = file.read_text().splitlines()
    file.write_text("\n".join([head, json.dumps({**json.loads(row), **change})]))
    with pytest.raises(JudgeError, match="line 2: accepted is a line"):
        import_replies(file, tmp_path / "other.sqlite")


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (Choice(older_than=1.0), "bc"),
        (Choice(older_than=0.0), "c"),
        (Choice(model="openai/a"), "c"),
        (Choice(model="openai/b"), "abc"),
        (Choice(run="other"), "abc"),
        (Choice(failed=True), "ac"),
        (Choice(failed=True, model="openai/b"), "abc"),
    ],
)
def test_pruning_takes_what_was_chosen_and_nothing_else(
    place: Path | str, counting_model: Models, run_sql: RunSql, leave_pending: LeavePending, choice: Choice, left: str
) -> None:
    asked = fill(place, counting_model)
    run_sql(place, "UPDATE calls SET finished = finished - 100000 WHERE key = ?", asked[0].key)
    with Ledger(place) as ledger:
        leave_pending(ledger, counting_model.request(9), "elsewhere:1:x")
        before = ledger.spent("run")
        count, size = prune(place, choice, really=False)
        assert sum(ledger.find(request.key) is not None for request in asked) == 3, "only counted"
        assert prune(place, choice, really=True) == (count, size)
        kept = "".join(name for name, request in zip("abc", asked, strict=True) if ledger.find(request.key))
        assert (kept, count) == (left, 3 - len(left))
        assert ledger.spent("run") == before
        assert before.unpriced, "the one that tells so was kept"
        assert run_sql(place, "SELECT COUNT(*) FROM calls WHERE status = 'pending'") == [(1,)]


def test_a_pruned_file_is_smaller(tmp_path: Path, counting_model: Models) -> None:
    place = tmp_path / "l.sqlite"
    model = counting_model(lambda _: LMReply("x" * 100_000, "stop", 1, 1, 0, 0.1))
    with LedgerLM(model, Ledger(place), "run") as lm:
        counting_model.ask(lm, *(counting_model.request(number) for number in range(20)))
    assert place.stat().st_size > 2_000_000
    assert prune(place, Choice(older_than=0), really=True) == (20, 2_000_000)
    assert place.stat().st_size < 100_000


def test_a_ledger_of_version_1_is_read_and_completed(tmp_path: Path, run_sql: RunSql) -> None:
    """As the first version made it, with a call of a dead process and one of a living."""
    place = tmp_path / "l.sqlite"
    request = LMRequest("openai/m", (Message("user", "x"),))
    statements = """
        CREATE TABLE calls (
            key TEXT PRIMARY KEY, status TEXT NOT NULL, run TEXT NOT NULL, owner TEXT NOT NULL, started REAL NOT NULL,
            reserved_tokens INTEGER NOT NULL, reserved_cost INTEGER NOT NULL, about TEXT NOT NULL, request BLOB,
            text BLOB, finish_reason TEXT, prompt_tokens INTEGER, completion_tokens INTEGER, cached_tokens INTEGER,
            cost INTEGER, finished REAL
        );
        CREATE INDEX pending ON calls (run) WHERE status = 'pending';
        CREATE TABLE runs (
            run TEXT PRIMARY KEY, calls INTEGER NOT NULL, tokens INTEGER NOT NULL, cost INTEGER NOT NULL,
            failed INTEGER NOT NULL
        );
        CREATE TABLE identity AS SELECT 'abc' AS id;
        PRAGMA application_id = 1735420465;
        PRAGMA user_version = 1;
        INSERT INTO runs VALUES ('run', 4, 26, 5000000000, 1);
    """
    for statement in statements.split(";"):
        run_sql(place, statement)
    insert = (
        "INSERT INTO calls VALUES (?, ?, 'run', ?, 1.0, 8, 1000000000, '{}', NULL, ?, 'stop', 6, 4, 1, 1000000000, 2.0)"
    )
    run_sql(place, insert, request.key, "done", "h:1:x", b"kept")
    run_sql(place, insert, "dead", "pending", "h:1:x", None)
    run_sql(place, insert, "dead too", "pending", "", None)
    before = place.read_bytes()
    with Ledger(place, read_only=True) as replay:
        kept = replay.find(request.key)
        assert kept == LMReply("kept", "stop", 6, 4, 1, 0.001, replayed=True)
    assert stats(place)["replies"] == 1
    assert place.read_bytes() == before, "a replay does not touch it"
    with Ledger(place) as ledger:
        assert ledger.find(request.key) == kept
        assert ledger.identity() == "abc"
        spent = ledger.spent("run")
        assert spent == Usage(2, 10, 0.003), "for an hour they may be of a living process"
        assert (spent.assumed, spent.unsure) == (0.002, 1), "no reply tells of it"
        step = Reserve("new", request, "run", Usage(1, 1), Budget())
        ledger.do(step).result()
    with Ledger(place) as ledger:
        assert ledger.failed("run") == 2, "the new one was left by a closed ledger"
