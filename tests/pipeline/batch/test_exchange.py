"""An evaluation whose calls are answered elsewhere ends as one that makes them itself."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.program import Knobs, seed_suite
from labeled_traces.files import write_lines
from pipeline.batch.calls import custom_id
from pipeline.batch.simulated import answers, request_of
from pipeline.cli import main
from pipeline.prepare import with_knobs

if TYPE_CHECKING:
    from tests.pipeline.batch.batch_server import BatchServer

DEFAULT = ("--model", "simulated/default")


def lines(path: str | Path = "calls.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def replies(path: str = "replies.jsonl", rows: Sequence[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Answers calls.jsonl with the simulated model."""
    found = [json.loads(line) for line in answers(Path("calls.jsonl"))] if rows is None else list(rows)
    write_lines(Path(path), [json.dumps(row) for row in found])
    return found


def evaluate_refusing(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """The evaluation must end without asking the model."""

    def refuse(*_: object) -> None:
        raise AssertionError("a call was made")

    with monkeypatch.context() as patch:
        patch.setattr("judges.simulated_lm.SimulatedLM.complete", refuse)
        assert main(["evaluate", "data.jsonl", *words]) == 0


OPTIONS = {
    "seven judges": DEFAULT,
    "five repeats": (*DEFAULT, "--repeats", "5", "--seed", "7"),
    "holistic": (*DEFAULT, "--holistic", "--repeats", "2"),
    "mlflow": (*DEFAULT, "--judges", "in_mlflow", "--repeats", "3"),
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_the_numbers_are_those_of_a_direct_evaluation(
    options: tuple[str, ...], batch: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    two = seed_suite(dimensions=("plan_adherence", "tool_calling"))
    with_knobs(two, {"layout": "mlflow"}).save(Path("in_mlflow"))
    assert main(["evaluate", "data.jsonl", *options, "--results", "direct"]) == 0
    rounds = 0
    while batch("export", "data.jsonl", *options, "--results", "found", "--out", "calls.jsonl")["calls"]:
        replies()
        batch("import", "data.jsonl", *options, "--results", "found", "--replies", "replies.jsonl")
        rounds += 1
    assert rounds == (2 if options[2:] in ((), OPTIONS["five repeats"][2:]) else 1), "plans are a round of their own"
    assert not Path("calls.jsonl").exists()
    evaluate_refusing(monkeypatch, *options, "--results", "found")
    assert Path("found/judgments.jsonl").read_bytes() == Path("direct/judgments.jsonl").read_bytes()
    direct = Path("direct/metrics.json").read_text().replace('"direct/', '"found/')
    assert Path("found/metrics.json").read_text() == direct


def test_calls_of_a_trace_are_together_and_custom_ids_are_their_own(batch: Callable[..., dict[str, Any]]) -> None:
    options = (*DEFAULT, "--repeats", "3")
    done = batch("export", "data.jsonl", *options)
    rows = lines()
    # 5 judges without a plan x 3 repeats, and one extraction a trace.
    assert (done["calls"], done["waiting"]) == (6 * (5 * 3 + 1), 6 * 2 * 3) == (len(rows), 36)
    assert len({row["custom_id"] for row in rows}) == len(rows)
    assert all(len(row["custom_id"]) <= 64 and row["custom_id"].replace("-", "").isalnum() for row in rows)
    fences = [row["body"]["messages"][1]["content"].splitlines()[0] for row in rows]
    assert [fence for i, fence in enumerate(fences) if fence not in fences[:i]] == fences[::16]
    first = Path("calls.jsonl").read_bytes()
    batch("export", "data.jsonl", *options)
    assert Path("calls.jsonl").read_bytes() == first
    assert [custom_id(request_of(row)) for row in rows] == [row["custom_id"] for row in rows]


def test_partial_shuffled_repeated_and_failed_replies(batch: Callable[..., dict[str, Any]]) -> None:
    batch("export", "data.jsonl", *DEFAULT)
    rows = replies()
    names = [row["custom_id"] for row in rows]
    failed = [
        {"custom_id": names[0], "response": None, "error": {"code": "batch_expired", "message": "too late"}},
        {"custom_id": names[1], "response": {"status_code": 429, "body": {"error": {"code": "rate_limit"}}}},
        {"custom_id": names[2], "result": {"type": "expired"}},
        # One that a later line answers is no failure.
        {"custom_id": names[9], "response": {"status_code": 500, "body": {}}, "error": None},
    ]
    mixed = [*rows[3:20], *rows[5:7], *failed]
    random.Random(0).shuffle(mixed)
    replies(rows=mixed)
    done = batch("import", "data.jsonl", *DEFAULT, "--replies", "replies.jsonl")
    assert (done["filed"], done["known"], done["repeated"]) == (17, 0, 2)
    assert done["errors"] == {"batch_expired": 1, "HTTP 429 rate_limit": 1, "expired": 1}
    again = batch("import", "data.jsonl", *DEFAULT, "--replies", "replies.jsonl")
    assert again == {**done, "filed": 0, "known": 17}, "a second import changes nothing"
    left = batch("export", "data.jsonl", *DEFAULT)
    assert left["calls"] == done["missing"]
    assert set(names[:3]) <= {row["custom_id"] for row in lines()}
    assert not set(names[3:20]) & {row["custom_id"] for row in lines()}


def test_a_reply_to_another_evaluation_is_refused_by_name(
    batch: Callable[..., dict[str, Any]],
) -> None:
    batch("export", "data.jsonl", *DEFAULT, "--seed", "1")
    foreign = replies("foreign.jsonl")
    batch("export", "data.jsonl", *DEFAULT)
    replies("own.jsonl")
    wrong = '{"custom_id": "x"}\nno json\n{"custom_id": 3, "text": ""}\n'
    Path("own.jsonl").write_text(Path("own.jsonl").read_text() + wrong)
    files = ("--replies", "foreign.jsonl", "own.jsonl")
    said = batch("import", "data.jsonl", *DEFAULT, *files, code=2)["error"]["message"]
    assert "36 of 72 replies are to no call of this evaluation: foreign.jsonl, line 1 (" in said
    assert foreign[0]["custom_id"] in said
    assert "26 more" in said
    assert all(f"own.jsonl, line {number}: " in said for number in (37, 38, 39))
    assert "The others are kept: 36 filed, 0 there before" in said
    replies("own.jsonl", [{**row, "text": "other"} for row in lines()][:2])
    said = batch("import", "data.jsonl", *DEFAULT, *files, code=2)["error"]["message"]
    assert said.endswith("The others are kept: 0 filed, 2 there before, of which 2 differ from what is there")
    assert batch("export", "data.jsonl", *DEFAULT)["waiting"] == 0, "what could be used is there"


def test_a_cut_reply_is_asked_for_again_in_the_next_round(batch: Callable[..., dict[str, Any]]) -> None:
    options = (*DEFAULT, "--holistic")
    batch("export", "data.jsonl", *options)
    rows = replies()
    rows[0]["response"]["body"]["choices"][0] = {"message": {"content": '{"ratio'}, "finish_reason": "length"}
    replies(rows=rows)
    assert batch("import", "data.jsonl", *options, "--replies", "replies.jsonl")["missing"] == 1
    before = lines()[0]["body"]
    assert batch("export", "data.jsonl", *options)["calls"] == 1
    after = lines()[0]["body"]
    assert after == {**before, "max_tokens": 2 * before["max_tokens"]}


def test_caps_bound_what_is_exported_and_are_reported_where_replies_pass_them(
    batch: Callable[..., dict[str, Any]],
) -> None:
    priced = ("--model", "openai/any", "--price", "1", "10", "--max-dollars", "0.5")
    done = batch("export", "data.jsonl", *priced)
    assert 0 < done["calls"] < 36
    assert done["calls"] + done["over_budget"] == 36
    assert done["most_dollars"] < 0.5
    usage = {"prompt_tokens": 10**6, "completion_tokens": 1000}
    reply = {"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}], "usage": usage}
    body = {"status_code": 200, "body": reply}
    replies(rows=[{"custom_id": row["custom_id"], "response": body} for row in lines()[:2]])
    found = batch("import", "data.jsonl", *priced, "--replies", "replies.jsonl")
    assert found["cost"] == pytest.approx(2 * (1.0 + 0.01) / 2), "half the price"
    assert found["passed"].startswith("1.01 of 0.5 dollars are used up")
    error = batch("export", "data.jsonl", *priced, code=4)["error"]
    assert "no call is exported: 1.01 of 0.5 dollars are used up" in error["message"]


def test_a_person_answers(batch: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "tell-nobody-this")
    refuses = "http://127.0.0.1:9/v1"
    options = ("--model", "openai/person", "--endpoint", refuses, "--holistic", "--price", "1", "1")
    batch("export", "data.jsonl", *options)
    text = json.dumps({"rationale": "fine, said tell-nobody-this", "findings": [], "score": 3})
    free = {"usage": {"prompt_tokens": 10, "completion_tokens": 5}, "cost": 0}
    replies(rows=[{"custom_id": row["custom_id"], "text": text, **free} for row in lines()])
    done = batch("import", "data.jsonl", *options, "--results", "found", "--replies", "replies.jsonl")
    assert (done["cost"], done["tokens"], done["missing"]) == (0.0, 90, 0)
    assert main(["evaluate", "data.jsonl", *options, "--results", "found"]) == 0
    assert "said [hidden]" in Path("found/judgments.jsonl").read_text()


def test_a_wrong_answer_is_corrected(batch: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--model", "openai/person", "--endpoint", "http://127.0.0.1:9/v1", "--price", "1", "1")
    judges = (*options, "--holistic", "--results", "found")
    given = ("import", "data.jsonl", *judges, "--replies", "replies.jsonl")
    batch("export", "data.jsonl", *judges)
    text = json.dumps({"rationale": "fine", "findings": [], "score": 3})
    rows = [{"custom_id": row["custom_id"], "text": text, "cost": 0.5} for row in lines()]
    wrong = [{**row, "text": f"oops {number}"} for number, row in enumerate(rows[:2])]
    replies(rows=[*wrong, *rows[2:]])
    first = batch(*given)
    assert (first["differing"], len(first["unreadable"]), first["cost"]) == ([], 2, 3.0)

    replies(rows=[{**rows[0], "cost": 0.25}, {**rows[1], "cost": None}, *rows[2:]])
    assert main(["batch", *given]) == 0
    told = capsys.readouterr().out
    where = "replies.jsonl, line 1; replies.jsonl, line 2"
    assert f"2 differ from what is there: --replace files these instead ({where})" in told
    assert "WARNING, replies that cannot be read, so they give no score: 2; the first: holistic on trace " in told
    again = batch(*given)
    assert (again["filed"], again["known"], again["cost"]) == (0, 6, 3.0), "without --replace nothing changes"

    done = batch(*given, "--replace")
    assert (len(done["differing"]), done["replaced"], done["unreadable"]) == (2, True, [])
    assert (done["cost"], done["calls"], done["tokens"]) == (3.25, first["calls"], first["tokens"])
    assert batch(*given, "--replace")["differing"] == []
    assert main(["evaluate", "data.jsonl", *judges]) == 0
    costs = [json.loads(line)["cost"] for line in Path("found/judgments.jsonl").read_text().splitlines()]
    assert costs == [0.75, *[0.5] * 5]


def test_a_plan_is_corrected_before_it_is_shown(batch: Callable[..., Any]) -> None:
    batch("export", "data.jsonl", *DEFAULT)
    rows = replies()
    plans = [i for i, row in enumerate(lines()) if "plans" in json.dumps(row["body"].get("response_format"))]
    answers = ({**rows[i], "text": "no plan"} if i in plans else row for i, row in enumerate(rows))
    replies("wrong.jsonl", list(answers))
    done = batch("import", "data.jsonl", *DEFAULT, "--replies", "wrong.jsonl")
    assert len(plans) == 6
    where = [f"wrong.jsonl, line {i + 1}: no plan as it was asked for" for i in plans]
    assert sorted(done["unreadable"]) == sorted(where)
    done = batch("import", "data.jsonl", *DEFAULT, "--replies", "replies.jsonl", "--replace")
    assert (len(done["differing"]), done["unreadable"]) == (6, [])
    batch("export", "data.jsonl", *DEFAULT)
    replies("second.jsonl")
    done = batch("import", "data.jsonl", *DEFAULT, "--replies", "second.jsonl")
    assert (done["missing"], done["waiting"], done["differing"]) == (0, 0, [])


def test_a_kill_in_the_middle_loses_nothing(batch: Callable[..., dict[str, Any]]) -> None:
    options = (*DEFAULT, "--repeats", "20")
    batch("export", "data.jsonl", *options)
    rows = replies()
    words = ["batch", "import", "data.jsonl", *options, "--results", "found", "--replies", "replies.jsonl"]
    work = subprocess.Popen([sys.executable, "-m", "pipeline.cli", *words], env={**os.environ, "PYTHONPATH": _root()})
    ledger = Path("found/ledger.sqlite-wal")
    while work.poll() is None and not (ledger.exists() and ledger.stat().st_size > 200_000):
        time.sleep(0.005)
    work.send_signal(signal.SIGKILL)
    assert work.wait() == -signal.SIGKILL
    done = batch(*words[1:])
    assert 0 < done["known"] < len(rows)
    assert done["known"] + done["filed"] == done["calls"] == len(rows)


def _root() -> str:
    return str(Path(__file__).parents[3])


def test_the_next_command_is_printed_as_it_can_be_run(
    batch: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["split", "data.jsonl", "--out", "split.json"]) == 0
    some = ["--split", "split.json", "--part", "train", "--results", "my results"]
    assert main(["batch", "export", "data.jsonl", *DEFAULT, "--holistic", *some, "--max-dollars", "1"]) == 0
    following = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  gpa-judges batch ")]
    submitted, imported = (shlex.split(line.split("    (")[0])[2:] for line in following)
    assert submitted == ["submit", "calls.jsonl", *DEFAULT]
    calls = len(replies())
    done = batch(*imported[:-1], "replies.jsonl")
    assert (done["filed"], done["missing"], done["results"]) == (calls, 0, "my results")


def test_judges_of_several_models_are_submitted_each_to_its_own(
    batch: Callable[..., Any], batch_server: BatchServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The calls of a judge with a server of its own must not go to another provider."""
    suite = seed_suite(dimensions=("goal_fulfillment", "tool_selection", "tool_calling"))
    mine = Knobs(model="openai/mine", endpoint=batch_server.endpoint)
    knobs = (Knobs(model="simulated/default"), mine, Knobs(model="gemini/gemini-2.5-pro"))
    judges = zip(suite.programs.items(), knobs, strict=True)
    mixed = {name: replace(program, knobs=own) for (name, program), own in judges}
    replace(suite, programs=mixed).save(Path("judges"))
    assert main(["batch", "export", "data.jsonl", "--judges", "judges"]) == 0
    first, second, third, _ = capsys.readouterr().out.split("Next:\n")[1].splitlines()
    for line in (first, second):
        (job,) = batch(*shlex.split(line.split("    (")[0])[2:])
        assert job["batch_id"]
    assert {row["body"]["model"] for row in batch_server.sent} == {"mine"}
    assert third == "  have calls-3.jsonl answered: batches of gemini are not sent from here"


def test_a_pattern_that_no_file_is_like_is_left_out(
    batch: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    batch("export", "data.jsonl", *DEFAULT)
    replies("replies-1[a].jsonl", replies("replies-2.jsonl")[:4])
    given = ("import", "data.jsonl", *DEFAULT, "--replies")
    assert main(["batch", *given, "replies-*.jsonl", "errors-*.jsonl", "replies-1[a].jsonl"]) == 0
    told = capsys.readouterr()
    assert "batch import: no file is like errors-*.jsonl\n" in told.err
    assert "36 replies filed, 0 were there before\n4 repeated" in told.out
    error = batch(*given, "errors-*.jsonl", "e?.jsonl", code=2)["error"]["message"]
    assert error == "no file of replies is like errors-*.jsonl, e?.jsonl: accepted is one at least"
    assert "none.jsonl: cannot be read" in batch(*given, "none.jsonl", code=2)["error"]["message"]


@pytest.mark.usefixtures("place")
def test_what_it_costs_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """At the price of a batch, of the calls that are written."""
    assert main(["batch", "export", "data.jsonl", "--model", "openai/any", "--price", "1", "10"]) == 0
    told = capsys.readouterr()
    assert (told.out + told.err).count("dollars") == 1
    assert "in a batch at most" in told.out


def test_an_export_that_fails_says_that_earlier_calls_are_still_there(batch: Callable[..., Any]) -> None:
    priced = ("--model", "openai/any", "--price", "1", "10", "--max-dollars", "0.0001")
    few = ("export", "data.jsonl", *priced, "--out", "my.jsonl")
    assert "earlier" not in batch(*few, code=4)["error"]["message"]
    batch(*few[:-3], "9", *few[-2:])
    assert "; my.jsonl of an earlier export is still there; " in batch(*few, code=4)["error"]["message"]
    assert Path("my.jsonl").exists()


def test_the_next_export_is_to_the_same_place(batch: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    batch("export", "data.jsonl", *DEFAULT, "--out", "some where/my.jsonl")
    replies(rows=[json.loads(line) for line in answers(Path("some where/my.jsonl"))])
    assert main(["batch", "import", "data.jsonl", *DEFAULT, "--replies", "replies.jsonl"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "batch export" in line]
    assert shlex.split(line.split("    (")[0])[-2:] == ["--out", "some where/my.jsonl"]


def test_help_of_a_step_holds_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for step in ("export", "import", "submit", "status", "fetch"):
        with pytest.raises(SystemExit):
            main(["batch", step, "--help"])
        shown[step] = capsys.readouterr().out
        assert "--json" in shown[step]
    for step in ("export", "import"):
        assert not {"--rpm", "--tpm", "--timeout", "--concurrency"} & set(shown[step].split())
        assert "--max-dollars" in shown[step]
    assert "cap in dollars" not in shown["submit"]
    assert "the file of calls to write (calls.jsonl)" in shown["export"]


@pytest.mark.usefixtures("place")
def test_options_of_calls_go_on_to_the_command_that_makes_them(capsys: pytest.CaptureFixture[str]) -> None:
    """One command line does for all: what speaks of sending is taken by the steps that send nothing."""
    assert main(["batch", "export", "data.jsonl", *DEFAULT, "--rpm", "7"]) == 0
    assert "batch import data.jsonl --model simulated/default --rpm 7 --replies" in capsys.readouterr().out


@pytest.mark.usefixtures("place")
def test_an_error_names_the_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["batch", "fetch", "none.jsonl"]) == 2
    assert capsys.readouterr().err.startswith("gpa-judges batch fetch: none.jsonl")
    assert main(["ledger", "stats", "none.sqlite"]) == 2
    assert capsys.readouterr().err.startswith("gpa-judges ledger stats: there is no ledger none.sqlite")


def test_another_results_folder_is_what_is_accepted(batch: Callable[..., dict[str, Any]]) -> None:
    """--out is the file of calls here."""
    batch("export", "data.jsonl", *DEFAULT, "--results", "mine")
    error = batch("export", "data.jsonl", *DEFAULT, "--holistic", "--results", "mine", code=2)["error"]["message"]
    assert error.startswith("mine holds another evaluation: accepted is another --results, or --force to replace it")
    assert "--ledger FILE shares replies" in error
