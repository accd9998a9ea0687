"""Passes over a real MLflow store."""

from __future__ import annotations

import json
import os
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
from pipeline.export.reference import Reference
from pipeline.recalibration.decide import Decided, Decision, Work

if TYPE_CHECKING:
    from tests.changed_agent import ChangedAgent
    from tests.pipeline.recalibration.conftest import Place

ROOT = Path(__file__).parents[3]


def test_a_pass_waits_for_labels_then_uses_each_once(place: Place, script: list[Any]) -> None:
    assert place.run().decision == Decision.NOTHING_NEW
    place.rows.log(place.some(3, 1), label=False)
    assert place.run().decision == Decision.NOTHING_NEW
    place.rows.log(place.some(6, 2))
    waiting = place.run()
    assert (waiting.decision, waiting.new_labels, waiting.more) == (Decision.NEEDS_LABELS, 6, 4)
    assert place.decisions() == []
    place.rows.log(place.some(6, 5))
    seen: list[Work] = []
    script.append(place.noting(seen))
    done = place.run()
    assert (done.decision, done.new_labels, done.resumed) == (Decision.FINE, 12, False)
    assert place.decisions() == ["fine"]
    assert place.run().decision == Decision.NOTHING_NEW
    (work,) = seen
    assert work.reference == Reference("span", {"f1": 0.75})
    assert len(work.labels.dataset) == 12
    assert {row.group for row in work.labels.manifest.testset_of(work.labels.dataset)}.isdisjoint(
        row.group for row in work.labels.manifest.development(work.labels.dataset).trainset
    )


def test_what_one_pass_measured_is_the_next_ones_reference(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    place.rows.log(place.some(12, 4))
    script.append(place.decided(Decision.BASELINE))
    place.run()
    place.rows.log(place.some(12, 5))
    seen: list[Work] = []
    script.append(place.noting(seen))
    place.run()
    assert seen[0].reference == Reference("span", {"f1": 0.5})
    # Neither pass read its held-out part, so the second had the labels of the first as well; a promotion spends both.
    assert (len(seen[0].labels.dataset), len(seen[0].labels.fresh)) == (24, 12)
    place.rows.log(place.some(24, 40))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "- Look twice.")))
    assert place.run().new_labels == 24
    assert [(record.spent, len(record.traces)) for record in place.records()] == [(False, 12), (False, 24), (True, 48)]


def test_a_champion_that_somebody_else_made_meanwhile_stays(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    def meanwhile(_: Work) -> Decided:
        place.promote(place.better(suite, "plan_quality", "- By hand."))
        return place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "- By search."))

    place.rows.log(place.some(12, 8))
    script.append(meanwhile)
    done = place.run()
    assert done.decision == Decision.KEPT
    assert "was changed while the pass was under way" in done.reasons[-1]
    assert place.registry().champions()["plan_quality"].program.rubric.endswith("- By hand.")


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

    place.rows.log(place.some(30, 52))
    script.append(leak)
    assert not (done := place.run()).resumed
    assert done.decision == "given up"

    begun(51)
    old = place.versions()["plan_quality"]
    place.promote(place.better(suite, "plan_quality", "- By hand."))
    MlflowClient(place.uri).delete_prompt_version(f"{place.prefix}plan_quality", str(old))
    assert f"version {old} of the plan_quality judge was deleted" in given_up()


def test_labels_of_a_pass_that_was_given_up_unread_join_the_next(place: Place, script: list[Any]) -> None:
    def fail(work: Work) -> Decided:
        work.folder.mkdir()
        raise TraceError("this data cannot be split")

    place.rows.log(place.some(12, 60))
    script.append(fail)
    assert "its labels join those of the next pass" in place.run().reasons[0]
    place.rows.log(place.some(12, 61))
    seen: list[Work] = []
    script.append(place.noting(seen))
    place.run()
    assert (len(seen[0].labels.fresh), seen[0].labels.older) == (12, 12)


def test_tasks_stay_in_their_parts_whatever_the_settings_become(place: Place, script: list[Any]) -> None:
    place.set(seed=3)
    rows = place.some(30, 62)
    place.rows.log(rows)
    seen: list[Work] = []

    def stop(work: Work) -> Decided:
        seen.append(work)
        raise KeyboardInterrupt

    script.append(stop)
    place.stopped()
    place.set(seed=4, labels={"least_traces": 10, "fractions": [0.8, 0.1, 0.1]})
    script.append(place.noting(seen))
    place.run()
    first, resumed = seen
    assert (resumed.labels.manifest, resumed.labels.fresh) == (first.labels.manifest, first.labels.fresh)
    assert resumed.config.seed == first.config.seed == 3
    # The same tasks again, run otherwise.
    later = [replace(row, trace=replace(row.trace, trace_id=f"{row.trace_id} later")) for row in rows]
    roots = [replace(row.trace.spans[0], name="another run") for row in later]
    traces = [replace(row.trace, spans=(root, *row.trace.spans[1:])) for row, root in zip(later, roots, strict=True)]
    place.rows.log(replace(row, trace=trace) for row, trace in zip(later, traces, strict=True))
    script.append(place.noting(seen))
    assert place.run().new_labels == 30

    def tasks(work: Work, part: str) -> set[str]:
        return {work.labels.dataset[trace_id].group for trace_id in work.labels.manifest.parts[part]}

    for part in first.labels.manifest.parts:
        assert tasks(seen[2], part) == tasks(first, part) != set()


def test_the_same_run_logged_again_is_no_new_label(place: Place, script: list[Any]) -> None:
    rows = place.some(12, 63)
    place.rows.log(rows)
    script.append(place.decided(Decision.KEPT))
    place.run()
    place.rows.log(replace(row, trace=replace(row.trace, trace_id=f"{row.trace_id} copy")) for row in rows)
    assert place.run().decision == Decision.NOTHING_NEW


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


def test_a_challenger_that_mlflow_cannot_hold_is_not_tried_for_ever(
    place: Place, script: list[Any], suite: JudgeSuite
) -> None:
    place.rows.log(place.some(12, 65))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "x" * 100_000)))
    done = place.run()
    assert done.decision == Decision.KEPT
    assert "the challenger cannot run in MLflow" in done.reasons[-1]


def test_without_a_champion_it_says_what_to_do(make_place: Callable[..., Place]) -> None:
    with pytest.raises(PipelineError, match="gpa-judges export RUN --to mlflow"):
        make_place().run()


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
