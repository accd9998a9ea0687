from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from judges.lm import BudgetExhausted, JudgeError, LMError
from judges.program import JudgeSuite, seed_suite
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.simulated import rate, simulate
from labeled_traces.split import LeakageError
from labeled_traces.trace import TraceError
from pipeline.cli import main
from pipeline.commands import COMMANDS
from pipeline.config import PipelineError
from pipeline.held_out import uses_known

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

ROOT = Path(__file__).parents[2]
CLEAN = json.dumps({"rationale": "nothing is wrong", "findings": [], "score": 3})
SIMULATED = ("--model", "simulated/default")
NO_PLAN = json.dumps({"source": "none", "plans": []})


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.jsonl"
    Dataset(rate(simulate(40, 0), 0)).save(path)
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default folders must not appear in the project."""
    monkeypatch.chdir(tmp_path)


class Ran:
    """What a command gave: exit code, stdout, stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *argv: object) -> None:
        self.code = main([str(argument) for argument in argv])
        self.out, self.err = capsys.readouterr()

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def script(body: dict[str, Any]) -> str:
    return NO_PLAN if "Extract the plan" in body["messages"][-1]["content"] else CLEAN


# -- help ------------------------------------------------------------------------------------------------------------


def test_help_names_every_command_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for name in ("demo", "import", "split", "evaluate", "optimize", "validate"):
        assert f"gpa-judges {name}" in text or f"    {name} " in text
    assert "exit codes" in text


@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_teaches_by_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert f"gpa-judges {name} " in text.split("examples:")[1]
    assert "--json" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["evalute"],
        ["split", "x"],
        ["evaluate", "x", "--repeats", "0"],
        ["split", "x", "--out", "y", "--seed", "-1"],
    ],
)
def test_a_wrong_command_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, *argv)
    assert ran.code == 2
    assert ran.err.startswith("usage: gpa-judges")
    assert ran.out == ""
    ran = Ran(capsys, *argv, "--json")
    assert ran.code == 2
    assert ran.document["error"]["kind"] == "UsageError"
    assert ran.document["error"]["message"] in ran.err


# -- commands --------------------------------------------------------------------------------------------------------


def test_import_split_evaluate(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported = Ran(capsys, "import", data, "--out", "own.jsonl", "--json")
    assert imported.code == 0
    assert imported.document["traces"] == 40
    assert imported.document["labelled"] + imported.document["clean"] == 40
    assert imported.document["dimensions"]["tool_calling"] > 0
    assert "gpa-judges evaluate own.jsonl" in imported.err

    split = Ran(capsys, "split", "own.jsonl", "--out", "split.json", "--seed", "3", "--json")
    assert split.code == 0
    assert sum(part["traces"] for part in split.document["parts"].values()) == 40
    assert Ran(capsys, "split", "own.jsonl", "--out", "again.json", "--seed", "3").code == 0
    assert (tmp_path / "split.json").read_text() == (tmp_path / "again.json").read_text()

    arguments = [
        "evaluate",
        "own.jsonl",
        *SIMULATED,
        "--split",
        "split.json",
        "--part",
        "dev",
        "--repeats",
        "2",
        "--out",
        "found",
    ]
    measured = Ran(capsys, *arguments, "--json")
    assert measured.code == 0
    document = measured.document
    assert document["traces"] == len(split_ids(tmp_path, "trainset")) + len(split_ids(tmp_path, "valset"))
    assert document["metrics"]["coverage"]["value"] > 0
    assert document["outcomes"]["scored"] > 0
    assert document["cost"] == 0
    assert document["simulated"] is True
    assert document == json.loads((tmp_path / "found" / "metrics.json").read_text())
    assert Path(document["judgments"]).read_text().count("\n") == document["traces"] * 7 * 2
    again = Ran(capsys, *arguments)
    assert "coverage" in again.out
    assert f"{document['calls']:,} calls" in again.out  # replayed: nothing was added


def test_what_is_there_is_not_written_over(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "my notes.txt"
    other.write_text("precious")
    ran = Ran(capsys, "import", data, "--out", other)
    assert ran.code == 2
    assert "--force" in ran.err
    assert other.read_text() == "precious"
    assert Ran(capsys, "import", data, "--out", other, "--force").code == 0
    assert Ran(capsys, "import", data, "--out", other).code == 0  # the same once more


def test_another_evaluation_is_not_written_over(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed_suite(dimensions=("tool_calling",)).save(tmp_path / "judges")
    words = ["evaluate", data, "--judges", "judges", "--out", "found"]
    assert Ran(capsys, *words).code == 0
    first = (tmp_path / "found" / "judgments.jsonl").read_bytes()
    other = Ran(capsys, *words, "--repeats", "2")
    assert other.code == 2
    assert "holds another evaluation" in other.err
    assert (tmp_path / "found" / "judgments.jsonl").read_bytes() == first
    assert Ran(capsys, *words).code == 0
    assert Ran(capsys, *words, "--repeats", "2", "--force").code == 0


def test_hints_can_be_copied(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hints = Ran(capsys, "import", data, "--out", "it's my data.jsonl").out.split("Next:")[1].splitlines()
    lines = [shlex.split(line) for line in hints if line]
    assert lines[0] == ["gpa-judges", "evaluate", "it's my data.jsonl", "--model", "MODEL"]
    assert lines[1] == ["gpa-judges", "split", "it's my data.jsonl", "--out", "split.json"]
    key = Ran(capsys, "split", data, "--out", "a: [b].json").out.splitlines()[-1]
    assert yaml.safe_load(key) == {"split": {"manifest": "a: [b].json"}}


def split_ids(folder: Path, part: str) -> list[str]:
    ids: list[str] = json.loads((folder / "split.json").read_text())[part]
    return ids


def test_evaluate_records_each_use_of_a_testset(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(data, "own.jsonl")
    Ran(capsys, "split", "own.jsonl", "--out", "split.json")
    arguments = ["evaluate", "own.jsonl", *SIMULATED, "--split", "split.json", "--part", "test", "--holistic", "--json"]
    assert Ran(capsys, *arguments, "--out", "runs/a").document["test_uses"] == 1
    assert Ran(capsys, *arguments, "--out", "runs/b").document["test_uses"] == 2
    assert Ran(capsys, *arguments, "--out", "runs/b").document["test_uses"] == 2
    whole = ["evaluate", "own.jsonl", *SIMULATED, "--holistic", "--json"]
    assert Ran(capsys, *whole, "--split", "split.json", "--out", "runs/c").document["test_uses"] == 3
    assert Ran(capsys, *whole, "--split", "split.json", "--part", "dev").document["test_uses"] == 0
    assert Ran(capsys, *whole, "--out", "runs/d").document["test_uses"] == 4
    assert (tmp_path / "test_uses.jsonl").read_text().count("\n") == 4
    Dataset(list(Dataset.load(tmp_path / "own.jsonl"))[:-1]).save(tmp_path / "fewer.jsonl")
    assert Ran(capsys, "evaluate", "fewer.jsonl", *SIMULATED, "--holistic", "--json").document["test_uses"] == 5
    Path("runs/a/ledger.sqlite").unlink()
    assert Ran(capsys, *arguments, "--out", "runs/a").document["test_uses"] == 6, "the readings were made anew"
    text = Path("own.jsonl").read_text()
    Path("edited.jsonl").write_text(text.replace('"name":"planner"', '"name":"planner."'))
    assert Path("edited.jsonl").read_text() != text
    assert Ran(capsys, "evaluate", "edited.jsonl", *SIMULATED, "--holistic", "--json").document["test_uses"] == 7


def test_another_copy_of_the_data_is_no_new_testset(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is one whose record beside the data was deleted: the folders of the runs say it too."""
    for folder in ("one", "two"):
        Path(folder).mkdir()
        shutil.copy(data, f"{folder}/{folder}.jsonl")
    Ran(capsys, "split", data, "--out", "split.json")
    given = [*SIMULATED, "--holistic", "--json"]
    held_out = [*given, "--split", "split.json", "--part", "test"]
    assert Ran(capsys, "evaluate", "one/one.jsonl", *held_out, "--out", "runs/a").document["test_uses"] == 1
    assert Ran(capsys, "evaluate", "two/two.jsonl", *held_out, "--out", "runs/b").document["test_uses"] == 2
    Path("one/test_uses.jsonl").unlink()
    assert Ran(capsys, "evaluate", "one/one.jsonl", *given, "--out", "runs/c").document["test_uses"] == 3
    assert Ran(capsys, "evaluate", "one/one.jsonl", *held_out, "--out", "elsewhere/d").document["test_uses"] == 2
    Path("runs/a/test_uses.jsonl").write_text("{")
    with pytest.raises(TraceError, match=r"runs/a/test_uses\.jsonl, line 1: "):
        uses_known(tmp_path / "two" / "test_uses.jsonl", Path("runs"))


def test_evaluate_of_judges_that_quote_the_testset(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Ran(capsys, "split", data, "--out", "split.json")
    example = {"excerpt": "short", "findings": [], "score": 3, "trace_id": split_ids(tmp_path, "testset")[0]}
    program = seed_suite(dimensions=("tool_calling",)).programs["tool_calling"]
    JudgeSuite({"tool_calling": program.with_parts({"examples": json.dumps(example)}, "by hand")}).save(tmp_path / "j")
    arguments = ["evaluate", data, "--judges", "j", "--split", "split.json", "--out", "found", "--json"]
    for more in ([], ["--part", "test"]):
        ran = Ran(capsys, *arguments, *more)
        assert ran.code == 2
        assert "tool_calling examples holds an example of the held-out trace" in ran.err
    assert not (tmp_path / "found").exists()
    assert Ran(capsys, *arguments, "--part", "dev").code == 0


def test_a_split_is_not_written_over(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Ran(capsys, "split", data, "--out", "split.json").code == 0
    before = (tmp_path / "split.json").read_text()
    assert Ran(capsys, "split", data, "--out", "split.json").code == 0
    ran = Ran(capsys, "split", data, "--out", "split.json", "--seed", "1")
    assert ran.code == 2
    assert "split.json holds another split" in ran.err
    assert "accepted is another --out" in ran.err
    assert (tmp_path / "split.json").read_text() == before
    (tmp_path / "notes.txt").write_text("mine")
    ran = Ran(capsys, "split", data, "--out", "notes.txt")
    assert ran.code == 2
    assert "notes.txt holds something else" in ran.err


def test_evaluate_own_judges_with_their_rule(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed_suite(dimensions=("tool_calling",)).save(tmp_path / "judges")
    arguments = ["evaluate", data, "--judges", "judges", "--json"]
    free = Ran(capsys, *arguments, "--out", "free").document
    assert set(free["dimensions"]) == {"tool_calling"}
    assert free["metrics"]["precision"]["n"] > 0
    (tmp_path / "judges" / "decision_rule.yaml").write_text("min_confidence: 100\nmin_judges: 2\n")
    strict = Ran(capsys, *arguments, "--out", "strict").document
    assert strict["metrics"]["precision"]["value"] is None
    assert strict["metrics"]["precision"]["reason"]


def test_demo_tells_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ran = Ran(capsys, "demo", "--traces", "60", "--output", "out", "--seed", "5", "--json")
    assert ran.code == 0
    document = ran.document
    assert document["verdict"] in ("PASS", "FAIL", "INCONCLUSIVE")
    assert set(document["testset"]) == {"seed", "tuned", "holistic", "flag_all", "silent", "guess"}
    for side in document["testset"].values():
        for metric in ("coverage", "localization", "precision", "false_alarms", "alpha", "agreement"):
            assert set(side[metric]) >= {"value", "low", "high", "n"}
    assert document["calls"] > 0
    assert document["tokens"] > 0
    assert document["cost"] == 0
    assert [step["optimizer"] for step in document["steps"]] == ["gepa", "evolution", "optuna"]
    assert all(set(step["gain"]) == set(step["before"]) == set(step["after"]) for step in document["steps"])
    run_dir = Path(document["run_dir"])
    assert run_dir.parent == tmp_path / "out"
    assert (tmp_path / "out" / "mlflow.db").is_file()
    for told in (
        "generic judges",
        "Verdict",
        "simulated",
        "validation traces",
        str(run_dir / "programs" / "tuned"),
        "mlflow.db",
        "Next",
    ):
        assert told in ran.err

    validated = Ran(capsys, "validate", run_dir, "--json")
    assert validated.document["testset"] == document["testset"]
    assert validated.code == {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 5}[document["verdict"]]


def test_optimize_then_validate(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own.yaml").write_text(
        f"name: own\ndata: {{path: {data}}}\njudges: {{model: simulated/default, dimensions: [tool_calling]}}\n"
        "search: {optimizer: seed}\ntracking: {enabled: false}\n"
    )
    optimized = Ran(capsys, "optimize", "own.yaml", "--json")
    assert optimized.code == 0
    document = optimized.document
    assert document["dimensions"]["tool_calling"]["improved"] is False
    assert Path(document["programs"]).is_dir()
    assert "Nothing was changed, so there is nothing to validate" in optimized.err
    validated = Ran(capsys, "validate", document["run_dir"])
    assert validated.code == 5
    assert "Verdict: INCONCLUSIVE\n  nothing to validate: the tuned judges are the generic ones" in validated.out
    assert (Path(document["run_dir"]) / "report.html").is_file()


# -- real data over HTTP ---------------------------------------------------------------------------------------------


def test_real_traces_through_a_real_endpoint(
    shared_data: Path,
    tmp_path: Path,
    scripted_server: type[ScriptedServer],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    folder = shared_data / "agentrx_tau"
    imported = Ran(capsys, "import", folder, "--out", "tau.jsonl", "--json").document
    assert (imported["traces"], imported["labelled"], imported["clean"]) == (52, 15, 37)
    assert imported["outside_gpa"] > 0

    failed = Dataset([row for row in Dataset.load(tmp_path / "tau.jsonl") if row.errors])
    failed.save(tmp_path / "failed.jsonl")
    with scripted_server(script) as server:
        ran = Ran(capsys, "evaluate", "failed.jsonl", "--model", "openai/any", "--endpoint", server.endpoint, "--json")
        bodies = server.bodies
    assert ran.code == 0
    assert ran.document["simulated"] is False
    assert ran.document["cost"] is None  # no price is known: unknown is not zero
    assert ran.document["outcomes"] == {"scored": 75, "not_applicable": 30}
    assert ran.document["calls"] == len(bodies) == 15 * 5 + 15
    prompts = [message["content"] for body in bodies for message in body["messages"]]
    assert_no_answer(folder, prompts)


def test_five_repeats_of_a_model_that_never_varies(
    data: Path,
    tmp_path: Path,
    scripted_server: type[ScriptedServer],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cached or not, repeats are calls of their own; and no variation is not perfect agreement."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    seed_suite(dimensions=("tool_calling",)).save(tmp_path / "judges")
    Dataset(list(Dataset.load(data))[:4]).save(tmp_path / "few.jsonl")
    with scripted_server(script) as server:
        arguments = ["evaluate", "few.jsonl", "--judges", "judges", "--model", "openai/any", "--repeats", "5"]
        arguments += ["--endpoint", server.endpoint, "--out", "found"]
        first = Ran(capsys, *arguments, "--json").document
        again = Ran(capsys, *arguments, "--json").document
        assert len(server.bodies) == 4 * 5
    assert first == again
    alpha = first["metrics"]["alpha"]
    assert alpha["value"] is None
    assert "no variation" in alpha["reason"]
    assert first["metrics"]["raw_agreement"]["value"] == 1


def assert_no_answer(folder: Path, prompts: list[str]) -> None:
    """No text of the labels, and nothing of the answer that is not in the conversations themselves."""
    everything = "\n".join(prompts)
    secrets = set(texts_of(json.loads((folder / "ground_truth.json").read_text())))
    runs = json.loads((folder / "failed_runs.json").read_text())
    for run in runs:
        secrets |= set(texts_of({key: value for key, value in run.items() if key != "traj"}))
    conversations = json.dumps([run["traj"] for run in runs], ensure_ascii=False)
    long = {text for text in secrets if len(text) >= 12 and text not in conversations}
    assert len(long) > 60
    assert [text for text in long if text in everything] == []
    for key in ("reward_info", "r_actions", "gt_data_hash", "failure_category", "ground_truth", "root_cause"):
        assert key not in everything


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["import", "nothing.jsonl", "--out", "x"], "nothing.jsonl"),
        (["split", "nothing.jsonl", "--out", "x"], "nothing.jsonl"),
        (["evaluate", "nothing.jsonl", *SIMULATED], "nothing.jsonl"),
        (["evaluate", "nothing.jsonl"], "--model NAME is needed: accepted is a LiteLLM model name"),
        (["optimize", "nothing.yaml"], "nothing.yaml"),
        (["validate", "nothing"], "is not a run"),
        (["demo", "--traces", "3"], "'3' is not accepted: a whole number from 10 to 100000 is"),
    ],
)
def test_bad_input(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, *argv, "--json")
    assert ran.code == 2
    assert message in ran.err
    assert "Traceback" not in ran.err
    assert ran.document["error"]["exit_code"] == 2
    assert message in ran.document["error"]["message"]
    assert Ran(capsys, *argv).out == ""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([*SIMULATED, "--part", "dev"], "--part needs --split"),
        ([*SIMULATED, "--split", "s.json"], "s.json"),
        (["--price", "1", "2"], "--price belongs to --model"),
        (["--judges", "nowhere"], "nowhere"),
    ],
)
def test_arguments_that_do_not_fit(
    data: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(capsys, "evaluate", data, *more)
    assert ran.code == 2
    assert message in ran.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TraceError("x"), 2),
        (JudgeError("x"), 2),
        (PipelineError("x"), 2),
        (LeakageError("x"), 2),
        (FileNotFoundError("x"), 2),
        (LMError("timeout", "x"), 3),
        (BudgetExhausted("x"), 4),
    ],
)
def test_exit_codes(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(COMMANDS["split"], "run", fail)
    ran = Ran(capsys, "split", "x", "--out", "y", "--json")
    assert ran.code == code
    assert ran.document["error"]["kind"] == type(error).__name__


def test_a_fault_of_ours_is_one_line_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(COMMANDS["split"], "run", fail)
    ran = Ran(capsys, "split", "x", "--out", "y")
    assert ran.code == 70
    assert len(ran.err.splitlines()) == 1
    found = re.search(r"details: (.*)\)", ran.err)
    assert found is not None
    file = Path(found.group(1))
    assert "ZeroDivisionError: oh" in file.read_text()
    file.unlink()


def test_a_used_up_budget(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "evaluate", data, *SIMULATED, "--max-calls", "5", "--out", "found", "--json")
    assert ran.code == 4
    assert "raise the budget and start the same command again" in ran.err
    assert Path("found/judgments.jsonl").read_text().count('"scored"') in (4, 5)  # one call may be a plan's
    assert Ran(capsys, "evaluate", data, *SIMULATED, "--out", "found", "--json").code == 0


def test_a_dollar_cap_needs_a_price(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = Ran(capsys, "evaluate", data, "--model", "openai/unheard-of", "--max-dollars", "1")
    assert ran.code == 2
    assert "price" in ran.err


def test_a_dead_endpoint(
    data: Path,
    scripted_server: type[ScriptedServer],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nothing")
    with scripted_server(lambda _: scripted_server.error(401, "no such key")) as server:
        ran = Ran(capsys, "evaluate", data, "--model", "openai/any", "--endpoint", server.endpoint)
        assert len(server.requests) < 40
    assert ran.code == 3
    assert "none succeeded" in ran.err
    assert "mend that (model, endpoint or key), then start the same command again" in ran.err
    assert "Traceback" not in ran.err


# -- the process -----------------------------------------------------------------------------------------------------


def start(
    *argv: str | Path, module: Sequence[str] = ("-m", "pipeline.cli"), **environment: str
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *module, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        # What runs in the background of a shell ignores an interrupt, and so would the command.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_an_interrupted_command(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("name: x\noutput: out\ndata: {simulated: {traces: 200}}\ntracking: {enabled: false}\n")
    process = start("optimize", file)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(tmp_path.glob("out/x-*/ledger.sqlite")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"start the same command again to resume" in err
    assert b"Traceback" not in err


def test_an_interrupt_inside_an_exec(tmp_path: Path) -> None:
    """Dataclasses and named tuples are made by one. A module whose Python saw that would end by the signal."""
    (tmp_path / "interrupted.py").write_text(
        "from pipeline import cli\n"
        "from pipeline.commands import split\n"
        "split.run = lambda *_: exec('raise KeyboardInterrupt')\n"
        "cli.run()\n"
    )
    process = start("split", "x", "--out", "y", module=("-m", "interrupted"), PYTHONPATH=f"{ROOT}:{tmp_path}")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"start the same command again to resume" in err


def test_an_interrupt_after_the_result(data: Path, tmp_path: Path) -> None:
    """While Python ends, which takes a moment after large libraries."""
    ending = "atexit.register(lambda: (print('ending', flush=True), time.sleep(1)))"
    argv = ["gpa-judges", "split", str(data), "--out", str(tmp_path / "s.json")]
    words = f"import atexit, sys, time; sys.argv = {argv!r}; {ending}; from pipeline.cli import run; run()"
    process = start("-c", words, module=())
    assert process.stdout is not None
    while b"ending" not in (line := process.stdout.readline()):
        assert line
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == b""


@pytest.mark.parametrize("pause", [0.0, 0.1])
def test_a_second_interrupt(tmp_path: Path, pause: float) -> None:
    """While Python waits for calls in flight or ends, it would show as a traceback or as death by a signal."""
    file = tmp_path / "x.yaml"
    file.write_text("name: x\noutput: out\ndata: {simulated: {traces: 100}}\ntracking: {enabled: false}\n")
    process = start("optimize", file)
    assert process.stderr is not None
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list(tmp_path.glob("out/x-*/ledger.sqlite")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    while b"interrupted" not in (line := process.stderr.readline()):
        assert line
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == b""


def test_a_reader_that_goes_away(data: Path, tmp_path: Path) -> None:
    process = start("split", data, "--out", tmp_path / "s.json")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=120) == 141
    assert err == b""


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_a_terminal_that_knows_few_letters(tmp_path: Path, encoding: str) -> None:
    (trace,) = simulate(1, 0)
    label = ErrorLabel(None, ("tool_calling",), "x", Impact.LOW, description="\ud83d \u2028 \U0001f600")
    path = tmp_path / "d\u00e4ta \U0001f600.jsonl"
    Dataset([LabeledTrace(trace.trace, (label,))]).save(path)
    process = start("import", path, "--out", tmp_path / "o\u00fct \u0416.jsonl", PYTHONIOENCODING=encoding)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert b"1 trace: 1 with labels" in out
    assert (tmp_path / "o\u00fct \u0416.jsonl").is_file()
