"""The way back, over a real MLflow store."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from judges.decision import DecisionRule
from judges.program import JudgeSuite
from pipeline.config import PipelineError
from pipeline.export.records import Records
from pipeline.export.reference import REFERENCE, Reference
from pipeline.export.registry import Registry
from pipeline.recalibration.decide import Decision, Work

if TYPE_CHECKING:
    from tests.pipeline.recalibration.conftest import Place


def test_a_promotion_and_the_way_back(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    before = place.versions()
    with pytest.raises(PipelineError, match="no champion stands there that has replaced another"):
        place.rollback()
    place.rows.log(place.some(12, 6))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "- Look twice.")))
    done = place.run()
    assert done.decision == Decision.PROMOTED
    first = place.versions()
    assert first == {"plan_quality": before["plan_quality"] + 1, "tool_calling": before["tool_calling"]}
    champion = place.registry().champions()["plan_quality"]
    assert champion.program.rubric.endswith("- Look twice.")
    assert Reference.parse(champion.tags[REFERENCE]) == Reference("span", {"f1": 0.5})
    place.rows.log(place.some(12, 7))
    script.append(
        place.decided(
            Decision.PROMOTED,
            place.better(place.better(suite, "plan_quality", "- Look twice."), "tool_calling", "- Look thrice."),
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
    place.rows.log(place.some(30, 20))
    seen: list[Work] = []
    script.append(place.noting(seen))
    place.run()
    assert seen[0].reference == Reference("span", {"f1": 0.75})


def test_the_last_promotion_is_the_last_one_although_the_same_judge_was_champion_before(
    place: Place, script: list[Any], suite: JudgeSuite
) -> None:
    first = place.better(suite, "plan_quality", "- One.")
    place.rows.log(place.some(14, 6))
    script.append(place.decided(Decision.PROMOTED, first))
    place.run()
    place.rollback()
    place.rows.log(place.some(14, 7))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "tool_calling", "- Two.")))
    place.run()
    before = place.versions()
    by_hand = [first, place.better(first, "plan_quality", "- Three.")]
    after = []
    for judges in by_hand:
        place.promote(replace(judges, programs={"plan_quality": judges.programs["plan_quality"]}))
        after.append(place.versions())
    place.rollback()
    assert place.versions() == after[0]
    place.rollback()
    assert place.versions() == before
    # Who came back is as old as it is: a rollback is no promotion.
    place.rollback()
    assert place.versions() == {**before, "tool_calling": before["tool_calling"] - 1}


def test_a_stopped_rollback_of_judges_that_were_replaced_since_says_that_it_changes_nothing(
    place: Place, suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.promote(place.better(suite, "plan_quality", "- two"))
    place.stopped_at(Registry, "rollback", monkeypatch, place.rollback)
    place.promote(place.better(suite, "plan_quality", "- three"))
    before = place.versions()
    assert "nothing is changed now" in place.rollback().reasons[0]
    assert place.versions() == before


def test_a_rollback_to_a_judge_that_was_deleted_holds_nothing_up(
    place: Place, suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.promote(place.better(suite, "plan_quality", "- two"))
    before = place.versions()
    place.stopped_at(Registry, "rollback", monkeypatch, place.rollback)
    place.delete("plan_quality", before["plan_quality"] - 1)
    assert place.run().decision == Decision.NOTHING_NEW
    with pytest.raises(PipelineError, match=r"version \d+ of the prompt .*plan_quality was deleted"):
        place.rollback()
    assert place.decisions() == ["not possible", "not possible"]
    assert place.versions() == before
    place.promote(place.better(suite, "plan_quality", "- three"))
    assert place.rollback().decision == "rolled back"
    assert place.versions() == before


def test_what_a_pass_had_promoted_stays_where_nothing_is_before_it(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = promoted_and_not_on_record(place, script, suite, monkeypatch)
    place.delete("plan_quality", before["plan_quality"])
    done = place.run()
    assert done.decision == "given up"
    assert "which the pass had promoted, stays champion" in done.reasons[-1]
    assert place.versions() == {**before, "plan_quality": before["plan_quality"] + 1}
    assert place.run().decision == Decision.NOTHING_NEW


@pytest.mark.parametrize("by", ["rollback", "pass"])
def test_an_alias_that_was_moved_with_mlflows_own_tools_goes_back(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    from mlflow import MlflowClient

    before = place.versions()
    place.rows.log(place.some(14, 6))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "- Look twice.")))
    place.stopped_at(Registry, "promote", monkeypatch)
    name = f"{place.prefix}plan_quality"
    MlflowClient(place.uri).set_prompt_alias(name, "champion", before["plan_quality"] + 1)
    script.append(place.decided(Decision.FINE))
    assert (place.run() if by == "pass" else place.rollback()).decision == ("fine" if by == "pass" else "rolled back")
    assert place.versions() == before
    assert place.runs_its_champions()


def promoted_and_not_on_record(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> dict[str, int]:
    """A pass that is killed when it has promoted another plan_quality; returns the champions' versions before it."""
    before = place.versions()
    place.rows.log(place.some(14, 6))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "- Look twice.")))
    place.stopped_at(Records, "end", monkeypatch)
    return before


def test_no_pass_undoes_a_rollback(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = promoted_and_not_on_record(place, script, suite, monkeypatch)
    assert place.versions() != before
    place.rollback()
    assert place.versions() == before
    assert place.run().decision == Decision.NOTHING_NEW
    assert (place.versions(), place.decisions()) == (before, ["overruled", "rolled back"])


def test_a_promotion_that_was_not_yet_on_record_is_the_last_one(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    challenger = place.better(suite, "plan_quality", "- Look twice.")
    place.rows.log(place.some(12, 6))
    script.append(place.decided(Decision.PROMOTED, challenger))
    place.run()
    first = place.versions()
    place.rows.log(place.some(12, 7))
    script.append(place.decided(Decision.PROMOTED, place.better(challenger, "tool_calling", "- Look thrice.")))
    place.stopped_at(Records, "end", monkeypatch)
    assert place.versions() != first
    place.rollback()
    assert place.versions() == first


def test_what_somebody_promoted_since_goes_back_alone(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    before = place.versions()
    place.rows.log(place.some(12, 40))
    stricter = replace(suite, rule=DecisionRule(min_confidence=50))
    script.append(place.decided(Decision.PROMOTED, stricter))
    place.run()
    both = place.versions()
    assert both == {name: version + 1 for name, version in before.items()}
    for text in ("- By hand.", "- By hand again."):
        by_hand = place.better(stricter, "plan_quality", text).programs["plan_quality"]
        place.promote(replace(stricter, programs={"plan_quality": by_hand}))
    place.rollback()
    place.rollback()
    assert place.versions() == both
    place.rollback()
    assert place.versions() == before


def test_a_stopped_pass_is_no_promotion(place: Place, script: list[Any], suite: JudgeSuite) -> None:
    """Whatever kept it from ending, it holds up no later one."""
    place.rows.log(place.some(12, 41))
    script.append(place.stop)
    place.stopped()
    before = place.versions()
    assert place.rollback().decision == "overruled"
    assert place.versions() == before
    place.rows.log(place.some(12, 42))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "- Look twice.")))
    assert place.run().decision == Decision.PROMOTED
    place.rows.log(place.some(12, 43))
    script.append(place.stop)
    place.stopped()
    # It had promoted nothing: it is ended, its labels can be used, and what was promoted before it stands.
    promoted = place.versions()
    assert place.rollback().decision == "overruled"
    assert place.versions() == promoted
    assert [record.spent for record in place.records()] == [False, True, False]
    assert place.rollback().decision == "rolled back"
    assert place.versions() == before


def test_labels_that_the_gate_of_a_stopped_pass_read_are_used(place: Place, script: list[Any]) -> None:
    place.rows.log(place.some(12, 45))
    script.append(place.stop_after_the_gate)
    place.stopped()
    assert place.rollback().decision == "overruled"
    place.rows.log(place.some(12, 46))
    script.append(place.stop)
    place.stopped()
    shutil.rmtree(place.path.parent / "state")
    assert place.rollback().decision == "overruled"
    assert [record.spent for record in place.records()] == [True, True]


def test_a_promotion_that_was_stopped_half_way_leaves_nothing_behind(
    place: Place, script: list[Any], suite: JudgeSuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.versions()
    place.rows.log(place.some(12, 44))
    script.append(place.decided(Decision.PROMOTED, place.better(suite, "plan_quality", "- Look twice.")))
    place.killed_while_promoting("plan_quality", monkeypatch)
    assert not place.runs_its_champions()
    assert place.rollback().decision == "overruled"
    assert place.versions() == before
    assert place.runs_its_champions()
