"""Passes over a real MLflow store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from judges.program import JudgeSuite
from pipeline.config import PipelineError
from pipeline.export.reference import Reference
from pipeline.recalibration.decide import Decided, Decision, Work

if TYPE_CHECKING:
    from tests.pipeline.recalibration.conftest import Place


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
