"""Passes over a real MLflow store."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from judges.budget import Usage
from judges.program import JudgeSuite, seed_suite
from labeled_traces.simulated import FaultRates, rate, simulate
from labeled_traces.split import LeakageError
from pipeline.config import PipelineError
from pipeline.export.exported import Provenance
from pipeline.export.reference import REFERENCE, Reference
from pipeline.export.registry import Registry
from pipeline.recalibration import passes
from pipeline.recalibration.config import load_recalibration
from pipeline.recalibration.decide import Decided, Decision, Work
from pipeline.recalibration.passes import Passed, recalibrate, rollback
from pipeline.recalibration.records import Record, Records

if TYPE_CHECKING:
    from tests.changed_agent import ChangedAgent
    from tests.mlflow_rows import MlflowRows

ROOT = Path(__file__).parents[3]
NUMBERS = count(1)


class Place:
    """An experiment with champions, and the file that re-calibrates them."""

    def __init__(self, uri: str, database: str, folder: Path, rows: type[MlflowRows], **values: Any) -> None:
        number = next(NUMBERS)
        self.rows = rows(database, values.pop("name", f"agent-{number}"), folder / "files")
        self.prefix = f"r{number}_"
        self.uri = uri
        self.path = folder / "recalibration.yaml"
        mlflow = {"uri": uri, "experiment": self.rows.name, "prefix": self.prefix}
        given = {"mlflow": mlflow, "state": "state", "labels": {"least_traces": 10}, **values}
        self.path.write_text(yaml.safe_dump(given), encoding="utf-8")
        self.rows.prefix = self.prefix

    def registry(self) -> Registry:
        return Registry(self.uri, self.rows.name, self.prefix)

    def promote(self, suite: JudgeSuite, reference: Reference | None = None) -> None:
        extra = {REFERENCE: reference.to_text()} if reference else {}
        judges = self.registry().register(suite, Provenance("test", simulated=True, extra=extra))
        self.registry().promote(judges.values())

    def versions(self) -> dict[str, int]:
        return {name: judge.version for name, judge in self.registry().champions().items()}

    def run(self) -> Passed:
        return recalibrate(load_recalibration(self.path), lambda _: None)

    def rollback(self) -> Passed:
        return rollback(load_recalibration(self.path), lambda _: None)

    def records(self) -> list[Record]:
        return Records(self.uri, self.rows.name, self.prefix).all()

    def decisions(self) -> list[str]:
        return [record.decision for record in self.records()]


@pytest.fixture
def suite() -> JudgeSuite:
    return seed_suite(dimensions=("plan_quality", "tool_calling"))


def better(suite: JudgeSuite, name: str, text: str) -> JudgeSuite:
    program = suite.programs[name]
    return suite.with_program(program.with_parts({"rubric": f"{program.rubric}\n{text}"}, "test"))


@pytest.fixture
def place(mlflow_database: str, tmp_path: Path, mlflow_rows: type[MlflowRows], suite: JudgeSuite) -> Place:
    made = Place(mlflow_database, mlflow_database, tmp_path, mlflow_rows)
    made.promote(suite, Reference("span", {"f1": 0.75}))
    return made


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> list[Decided | Callable[[Work], Decided]]:
    """Takes the place of the work of a pass: each pass takes what is next."""
    answers: list[Decided | Callable[[Work], Decided]] = []

    def decide(work: Work, _: Any) -> Decided:
        answer = answers.pop(0)
        return answer if isinstance(answer, Decided) else answer(work)

    monkeypatch.setattr(passes, "decide", decide)
    return answers


def decided(decision: Decision, challenger: JudgeSuite | None = None) -> Decided:
    return Decided(decision, ("because",), {}, Reference("span", {"f1": 0.5}), Usage(), challenger=challenger)


def noting(seen: list[Work]) -> Callable[[Work], Decided]:
    """Decides that all is fine, and keeps what it was given."""

    def answer(work: Work) -> Decided:
        seen.append(work)
        return decided(Decision.FINE)

    return answer


def some(n: int, seed: int) -> list[Any]:
    return [replace(row, scores=()) for row in rate(simulate(n, seed, FaultRates().scaled(2)), seed)]


def test_a_pass_waits_for_labels_then_uses_each_once(place: Place, script: list[Any]) -> None:
    assert place.run().decision == Decision.NOTHING_NEW
    place.rows.log(some(3, 1), label=False)
    assert place.run().decision == Decision.NOTHING_NEW
    place.rows.log(some(6, 2))
    waiting = place.run()
    assert (waiting.decision, waiting.new_labels, waiting.more) == (Decision.NEEDS_LABELS, 6, 4)
    assert place.decisions() == []
    place.rows.log(some(6, 5))
    seen: list[Work] = []
    script.append(noting(seen))
    done = place.run()
    assert (done.decision, done.new_labels, done.resumed) == (Decision.FINE, 12, False)
    assert place.decisions() == ["fine"]
    assert place.run().decision == Decision.NOTHING_NEW
    (work,) = seen
    assert work.reference == Reference("span", {"f1": 0.75})
    assert len(work.labels.dataset) == 12
    assert {row.group for row in work.manifest.testset_of(work.labels.dataset)}.isdisjoint(
        row.group for row in work.manifest.development(work.labels.dataset).trainset
    )


def test_what_one_pass_measured_is_the_next_ones_reference(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    place.rows.log(some(12, 4))
    script.append(decided(Decision.BASELINE))
    place.run()
    place.rows.log(some(12, 5))
    seen: list[Work] = []
    script.append(noting(seen))
    place.run()
    assert seen[0].reference == Reference("span", {"f1": 0.5})
    # Neither pass read its held-out part, so the second had the labels of the first as well; a promotion spends both.
    assert (len(seen[0].labels.dataset), len(seen[0].labels.fresh)) == (24, 12)
    place.rows.log(some(24, 40))
    script.append(decided(Decision.PROMOTED, better(suite, "plan_quality", "- Look twice.")))
    assert place.run().new_labels == 24
    assert [(record.spent, len(record.traces)) for record in place.records()] == [(False, 12), (False, 24), (True, 48)]


def test_a_promotion_and_the_way_back(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    before = place.versions()
    with pytest.raises(PipelineError, match="no champion stands there that has replaced another"):
        place.rollback()
    place.rows.log(some(12, 6))
    script.append(decided(Decision.PROMOTED, better(suite, "plan_quality", "- Look twice.")))
    done = place.run()
    assert done.decision == Decision.PROMOTED
    first = place.versions()
    assert first == {"plan_quality": before["plan_quality"] + 1, "tool_calling": before["tool_calling"]}
    champion = place.registry().champions()["plan_quality"]
    assert champion.program.rubric.endswith("- Look twice.")
    assert Reference.parse(champion.tags[REFERENCE]) == Reference("span", {"f1": 0.5})
    place.rows.log(some(12, 7))
    script.append(
        decided(
            Decision.PROMOTED,
            better(better(suite, "plan_quality", "- Look twice."), "tool_calling", "- Look thrice."),
        )
    )
    place.run()
    assert place.versions() == {**first, "tool_calling": before["tool_calling"] + 1}
    back = place.rollback()
    # Only what the last promotion changed goes back.
    assert (back.decision, place.versions()) == ("rolled back", first)
    place.rollback()
    assert place.versions() == before
    with pytest.raises(PipelineError, match="no champion stands there that has replaced another"):
        place.rollback()
    assert place.decisions() == ["promoted", "promoted", "rolled back", "rolled back"]
    assert place.run().decision == Decision.NOTHING_NEW
    # Who came back is compared with what it was promoted with itself.
    place.rows.log(some(30, 20))
    seen: list[Work] = []
    script.append(noting(seen))
    place.run()
    assert seen[0].reference == Reference("span", {"f1": 0.75})


def test_a_champion_that_somebody_else_made_meanwhile_stays(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    def meanwhile(_: Work) -> Decided:
        place.promote(better(suite, "plan_quality", "- By hand."))
        return decided(Decision.PROMOTED, better(suite, "plan_quality", "- By search."))

    place.rows.log(some(12, 8))
    script.append(meanwhile)
    done = place.run()
    assert done.decision == Decision.KEPT
    assert "was changed while the pass was under way" in done.reasons[-1]
    assert place.registry().champions()["plan_quality"].program.rubric.endswith("- By hand.")


def test_a_stopped_pass_keeps_its_labels_and_champions(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    def stop(_: Work) -> Decided:
        raise KeyboardInterrupt

    rows = place.rows.log(some(12, 9))
    script.append(stop)
    with pytest.raises(KeyboardInterrupt):
        place.run()
    # Whatever happens meanwhile: the pass is ended as it was begun.
    place.rows.log(some(12, 10))
    place.promote(better(suite, "plan_quality", "- By hand."))
    seen: list[Work] = []
    script.append(noting(seen))
    done = place.run()
    assert (done.decision, done.resumed) == (Decision.FINE, True)
    assert set(seen[0].labels.dataset.ids) == {row.trace_id for row in rows}
    assert seen[0].champion.programs["plan_quality"].rubric == suite.programs["plan_quality"].rubric
    script.append(decided(Decision.FINE))
    assert place.run().new_labels == 12


def test_a_stopped_pass_that_can_never_end_is_given_up(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    def stop(_: Work) -> Decided:
        raise KeyboardInterrupt

    def leak(_: Work) -> Decided:
        raise LeakageError("the champion holds words of a held-out trace")

    def given_up() -> str:
        done = place.run()
        assert (done.decision, place.run().decision) == ("given up", Decision.NOTHING_NEW)
        return done.reasons[0]

    def begun(seed: int) -> list[Any]:
        rows = place.rows.log(some(30, seed))
        script.append(stop)
        with pytest.raises(KeyboardInterrupt):
            place.run()
        return rows

    place.rows.label(next(row for row in begun(11) if row.errors))
    assert "labels were changed before it ended" in given_up()

    begun(50)
    script.append(leak)
    assert "words of a held-out trace: the pass is given up" in given_up()

    begun(51)
    from mlflow import MlflowClient

    old = place.versions()["plan_quality"]
    place.promote(better(suite, "plan_quality", "- By hand."))
    MlflowClient(place.uri).delete_prompt_version(f"{place.prefix}plan_quality", str(old))
    assert f"version {old} of the plan_quality judge was deleted" in given_up()


def test_without_a_champion_it_says_what_to_do(
    mlflow_database: str, tmp_path: Path, mlflow_rows: type[MlflowRows]
) -> None:
    with pytest.raises(PipelineError, match="gpa-judges export RUN --to mlflow"):
        Place(mlflow_database, mlflow_database, tmp_path, mlflow_rows).run()


DIE_AT_THE_END = """
import os, signal, sys
from pipeline.cli import main
from pipeline.recalibration.records import Record, Records
Records.end = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(["recalibrate", sys.argv[1]]))
"""


def test_killed_twice_then_promoted_and_rolled_back(
    mlflow_server: str,
    mlflow_database: str,
    tmp_path: Path,
    mlflow_rows: type[MlflowRows],
    changed_agent: type[ChangedAgent],
) -> None:
    # One gate alone: that a small sample passes all of them is not what is tested here.
    guards = dict.fromkeys(("coverage", "localization", "false_alarms", "alpha", "agreement"))
    settings = changed_agent.settings(
        validation={"repeats": 2, "gates": {"margins": guards}},
        search={"settings": {"max_calls": 1200, "max_iterations": 8}},
    )
    shared = settings.model_dump(mode="json", include={"search", "validation"})
    place = Place(mlflow_server, mlflow_database, tmp_path, mlflow_rows, name="killed", **shared)
    place.promote(changed_agent.champion(), Reference("span", {"f1": 0.84}))
    before = place.versions()
    place.rows.log(replace(row, scores=()) for row in changed_agent.rows(160, 2, changed_agent.AFTER))

    # In the middle of the search.
    process = _start("-m", "pipeline.cli", "recalibrate", str(place.path))
    deadline = time.monotonic() + 300
    while _calls(tmp_path / "state") < 600 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    with pytest.raises(PipelineError, match="is in use by process"):
        place.run()
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert place.decisions() == [""]
    assert place.versions() == before

    # After the promotion, before it is on record.
    assert _start("-c", DIE_AT_THE_END, str(place.path)).wait() == -signal.SIGKILL
    promoted, paid = place.versions(), _calls(tmp_path / "state")
    assert promoted["plan_quality"] == before["plan_quality"] + 1
    assert place.decisions() == [""]

    done = place.run()
    assert (done.decision, done.resumed) == ("promoted", True)
    assert (place.versions(), place.decisions()) == (promoted, ["promoted"])
    assert _calls(tmp_path / "state") == paid
    assert place.run().decision == Decision.NOTHING_NEW
    assert place.rollback().decision == "rolled back"
    assert place.versions() == before


def _start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=os.environ, stderr=subprocess.DEVNULL)


def _calls(state: Path) -> int:
    """How many calls are in the ledger."""
    found = list(state.rglob("ledger.sqlite"))
    if not found:
        return 0
    with sqlite3.connect(found[0], timeout=60) as db:
        try:
            return int(db.execute("SELECT COUNT(*) FROM calls").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made
            return 0
        finally:
            db.rollback()
