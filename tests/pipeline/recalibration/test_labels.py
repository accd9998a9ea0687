"""Which traces a pass takes, from a real MLflow store and the records of earlier passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.program import seed_suite
from labeled_traces.simulated import simulate
from labeled_traces.stable_split import Place, stable_split
from pipeline.config import validated
from pipeline.export.records import RECALIBRATION, Record, Used
from pipeline.held_out import check_leak, seal_of
from pipeline.mlflow_traces import MlflowTraces
from pipeline.recalibration.config import RecalibrationConfig
from pipeline.recalibration.labels import LabelSource

if TYPE_CHECKING:
    from tests.mlflow_rows import MlflowRows


NOBODY = seed_suite(dimensions=("plan_quality",))
FRACTIONS = (0.3, 0.2, 0.5)


def record(*traces: str, spent: bool, run_id: str = "r") -> Record:
    places = tuple(Place("testset", trace_id, f"content of {trace_id}") for trace_id in traces)
    return Record(run_id, RECALIBRATION, Used(places=places), {}, {}, "fine", "", "", spent)


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return {}


@pytest.fixture
def rows(mlflow_database: str, tmp_path: Path, mlflow_rows: type[MlflowRows], kept: dict[str, Any]) -> list[str]:
    """The ids of nine labelled traces, the oldest first; the tests read them alone, so they are logged once."""
    made = mlflow_rows(mlflow_database, "pass-labels", tmp_path / "files")
    if not kept:
        start = [replace(row.trace.spans[0], start=float(n), end=n + 0.5) for n, row in enumerate(simulate(9, 3))]
        traces = [
            replace(row, trace=replace(row.trace, spans=(span, *row.trace.spans[1:])))
            for span, row in zip(start, simulate(9, 3), strict=True)
        ]
        kept["ids"] = [row.trace_id for row in made.log(replace(row, scores=()) for row in traces)]
    ids: list[str] = kept["ids"]
    return ids


@pytest.fixture
def source(mlflow_database: str, rows: list[str]) -> Callable[..., LabelSource]:
    assert rows

    def made(*past: Record, least: int = 10) -> LabelSource:
        given = {"mlflow": {"uri": mlflow_database, "experiment": "pass-labels"}, "labels": {"least_traces": least}}
        config = validated(RecalibrationConfig, given, "test")
        return LabelSource(config, MlflowTraces(mlflow_database, "pass-labels"), past, lambda _: None)

    return made


def test_all_is_fresh_at_first(source: Callable[..., LabelSource], rows: list[str]) -> None:
    found = source().next(NOBODY)
    assert set(found.dataset.ids) == found.fresh == set(rows)
    assert found.older == 0


def test_what_no_gate_read_comes_again_the_newest_first_and_no_more_than_is_new(
    source: Callable[..., LabelSource], rows: list[str]
) -> None:
    found = source(record(*rows[:6], spent=False)).next(NOBODY)
    assert found.fresh == set(rows[6:])
    assert set(found.dataset.ids) == set(rows[3:])
    assert found.older == 3
    # What is held out of one pass is held out of every other.
    first = stable_split(source().next(NOBODY).dataset, 0, FRACTIONS)
    again = stable_split(found.dataset, 0, FRACTIONS)
    assert set(again.testset) == set(first.testset) & set(found.dataset.ids)


def test_what_a_gate_read_never_comes_again(source: Callable[..., LabelSource], rows: list[str]) -> None:
    found = source(record(*rows[:6], spent=False), record(*rows[3:7], spent=True)).next(NOBODY)
    assert found.fresh == set(rows[7:])
    assert set(found.dataset.ids) == {*rows[7:], rows[1], rows[2]}


def test_older_traces_alone_start_no_pass(source: Callable[..., LabelSource], rows: list[str]) -> None:
    found = source(record(*rows, spent=False)).next(NOBODY)
    assert (len(found.dataset), found.fresh) == (0, frozenset())
    waiting = source(record(*rows[:3], spent=False))
    assert waiting.more_needed(waiting.next(NOBODY)) == 10 - 6


def test_a_pass_that_was_stopped_has_what_it_began_with(source: Callable[..., LabelSource], rows: list[str]) -> None:
    earlier = record(*rows[:4], spent=False, run_id="earlier")
    stopped = record(*rows[2:8], spent=True, run_id="stopped")
    found = source(earlier, stopped)
    assert set(found.of(stopped).ids) == set(rows[2:8])
    assert found.fresh(stopped) == set(rows[4:8])


def test_what_the_champion_was_copied_from_tests_nothing(source: Callable[..., LabelSource], rows: list[str]) -> None:
    """Its examples may come from runs of the very tasks that people label now."""
    everything = source().next(NOBODY).dataset
    manifest = stable_split(everything, 0, FRACTIONS)
    shown = [manifest.testset[0], manifest.trainset[0]]
    lines = [json.dumps({"excerpt": "x", "findings": [], "score": 3, "trace_id": trace_id}) for trace_id in shown]
    program = NOBODY.programs["plan_quality"].with_parts({"examples": "\n".join(lines)}, "test")
    said: list[str] = []
    found = replace(source(), say=said.append).next(NOBODY.with_program(program))
    assert set(found.dataset.ids) == found.fresh == set(rows) - {shown[0]}
    assert any("1 x held-out trace that the champion's prompts share words with, left out" in line for line in said)
    found.manifest.check(found.dataset)
    check_leak(seal_of(found.dataset, found.manifest), NOBODY.with_program(program))
