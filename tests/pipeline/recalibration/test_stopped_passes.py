"""Passes that were killed, over a real MLflow store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.program import JudgeSuite
from labeled_traces.dataset import LabeledTrace
from labeled_traces.split import LeakageError
from labeled_traces.trace import TraceError
from pipeline.config import PipelineError
from pipeline.evaluate import NoUsableReply
from pipeline.export.reference import Reference
from pipeline.recalibration.decide import Decided, Decision, Work

if TYPE_CHECKING:
    from tests.changed_agent import ChangedAgent
    from tests.pipeline.recalibration.conftest import Place

ROOT = Path(__file__).parents[3]


def test_a_stopped_pass_keeps_its_labels_and_champions(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    rows = place.rows.log(place.some(12, 9))
    script.append(place.stop)
    place.stopped()
    # Whatever happens meanwhile: the pass is ended as it was begun.
    place.rows.log(place.some(12, 10))
    place.promote(place.better(suite, "plan_quality", "- By hand."))
    seen: list[Work] = []
    script.append(place.noting(seen))
    done = place.run()
    assert (done.decision, done.resumed) == (Decision.FINE, True)
    assert set(seen[0].labels.dataset.ids) == {row.trace_id for row in rows}
    assert seen[0].champion.programs["plan_quality"].rubric == suite.programs["plan_quality"].rubric
    script.append(place.decided(Decision.FINE))
    assert place.run().new_labels == 12


def test_a_stopped_pass_that_can_never_end_is_given_up(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    from mlflow import MlflowClient

    def leak(_: Work) -> Decided:
        raise LeakageError("the champion holds words of a held-out trace")

    def mute(_: Work) -> Decided:
        raise NoUsableReply("unparseable", "not one of 12 judgments can be used")

    def given_up() -> str:
        done = place.run()
        assert (done.decision, place.run().decision) == ("given up", Decision.NOTHING_NEW)
        saved = MlflowClient(place.uri).download_artifacts(done.run_id, "decision.json")
        assert json.loads(Path(saved).read_text(encoding="utf-8")) == done.document
        assert done.document["reasons"] == list(done.reasons)
        return done.reasons[0]

    def begun(seed: int) -> list[LabeledTrace]:
        rows = place.rows.log(place.some(30, seed))
        script.append(place.stop)
        place.stopped()
        return rows

    place.rows.label(next(row for row in begun(11) if row.errors))
    assert "labels were changed before it ended" in given_up()

    begun(50)
    script.append(leak)
    assert "words of a held-out trace: the pass is given up" in given_up()

    begun(53)
    script.append(mute)
    assert "not one of 12 judgments can be used: the pass is given up" in given_up()

    place.rows.log(place.some(30, 52))
    script.append(leak)
    assert not (done := place.run()).resumed
    assert done.decision == "given up"

    begun(51)
    old = place.versions()["plan_quality"]
    place.promote(place.better(suite, "plan_quality", "- By hand."))
    place.delete("plan_quality", old)
    assert f"version {old} of the plan_quality judge was deleted" in given_up()


def test_labels_of_a_pass_that_was_given_up_unread_join_the_next(place: Place, script: list[Any]) -> None:
    def fail(work: Work) -> Decided:
        work.folder.mkdir(exist_ok=True)
        raise TraceError("this data cannot be split")

    place.rows.log(place.some(12, 60))
    script.append(fail)
    assert "its labels join those of the next pass" in place.run().reasons[0]
    place.rows.log(place.some(12, 61))
    seen: list[Work] = []
    script.append(place.noting(seen))
    place.run()
    assert (len(seen[0].labels.fresh), seen[0].labels.older) == (12, 12)


def test_labels_that_a_gate_read_before_the_pass_was_stopped_are_used(place: Place, script: list[Any]) -> None:
    place.rows.log(place.some(12, 66))
    script.append(place.stop_after_the_gate)
    place.stopped()
    # With other settings it comes to another decision.
    script.append(place.decided(Decision.FINE))
    place.run()
    assert [record.spent for record in place.records()] == [True]


def test_labels_of_a_pass_whose_folder_is_gone_count_as_read(place: Place, script: list[Any]) -> None:
    place.rows.log(place.some(12, 67))
    script.append(place.stop)
    place.stopped()
    shutil.rmtree(place.path.parent / "state")
    # Killed once more, with a folder again.
    script.append(place.stop)
    place.stopped()
    script.append(place.decided(Decision.FINE))
    place.run()
    assert [record.spent for record in place.records()] == [True]


def test_champions_that_came_meanwhile_are_not_compared_with_the_old_ones(
    make_place: Callable[..., Place], script: list[Any], suite: JudgeSuite
) -> None:
    place = make_place()
    place.promote(suite)
    place.rows.log(place.some(14, 6))
    script.append(place.stop)
    place.stopped()
    by_hand = place.better(place.better(suite, "plan_quality", "- By hand."), "tool_calling", "- By hand.")
    place.promote(by_hand, Reference("span", {"f1": 0.9}))
    script.append(place.decided(Decision.BASELINE))
    assert place.run().decision == Decision.BASELINE
    place.rows.log(place.some(14, 7))
    seen: list[Work] = []
    script.append(place.noting(seen))
    place.run()
    assert seen[0].reference == Reference("span", {"f1": 0.9})


def test_a_pass_that_was_killed_while_it_was_put_on_record_may_come_to_another_end(
    place: Place, script: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    place.rows.log(place.some(14, 6))
    script.append(place.decided(Decision.KEPT))
    place.stopped_at(MlflowClient, "log_text", monkeypatch)
    script.append(place.decided(Decision.FINE))
    assert place.run().decision == Decision.FINE
    assert place.decisions() == ["fine"]


@pytest.mark.parametrize("killed_at", ["plan_quality", "tool_calling"])
def test_what_is_kept_is_what_mlflow_runs(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    """Killed in the middle of a promotion, then somebody else's champion comes in between: nothing is left of it."""
    before = place.versions()
    place.rows.log(place.some(12, 64))
    challenger = place.better(place.better(suite, "plan_quality", "- Searched."), "tool_calling", "- Searched.")
    script.append(place.decided(Decision.PROMOTED, challenger))
    place.killed_while_promoting(killed_at, monkeypatch)
    assert not place.runs_its_champions()
    by_hand = place.better(suite, "tool_calling", "- By hand.").programs["tool_calling"]
    place.promote(replace(suite, programs={"tool_calling": by_hand}))
    after = {**before, "tool_calling": place.versions()["tool_calling"]}
    script.append(place.decided(Decision.PROMOTED, challenger))
    assert place.run().decision == Decision.KEPT
    assert place.versions() == after
    assert place.runs_its_champions()


def test_a_challenger_that_was_withdrawn_comes_back_through_no_rollback(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.versions()
    place.rows.log(place.some(14, 6))
    challenger = place.better(place.better(suite, "plan_quality", "- Searched."), "tool_calling", "- Searched.")
    script.append(place.decided(Decision.PROMOTED, challenger))
    place.killed_while_promoting("tool_calling", monkeypatch)
    by_hand = place.better(suite, "plan_quality", "- By hand.").programs["plan_quality"]
    place.promote(replace(suite, programs={"plan_quality": by_hand}))
    script.append(place.decided(Decision.KEPT))
    assert place.run().decision == Decision.KEPT
    assert place.versions() == {**before, "plan_quality": before["plan_quality"] + 2}
    place.rollback()
    assert place.versions() == before
    assert place.runs_its_champions()


DIE_AT_THE_END = """
import os, signal, sys
from pipeline.cli import main
from pipeline.export.records import Record, Records
Records.end = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(["recalibrate", sys.argv[1]]))
"""


def test_killed_twice_then_promoted_and_rolled_back(
    mlflow_server: str,
    make_place: Callable[..., Place],
    tmp_path: Path,
    changed_agent: type[ChangedAgent],
) -> None:
    # One gate alone: that a small sample passes all of them is not what is tested here.
    guards = dict.fromkeys(("coverage", "localization", "false_alarms", "alpha", "agreement"))
    settings = changed_agent.settings(
        validation={"repeats": 2, "gates": {"margins": guards}},
        search={"settings": {"max_calls": 1200, "max_iterations": 8}},
    )
    shared = settings.model_dump(mode="json", include={"search", "validation"})
    place = make_place(mlflow_server, name="killed", **shared)
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
