"""Decisions in a real MLflow store."""

from __future__ import annotations

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.simulated import simulate
from labeled_traces.stable_split import Place, stable_split
from pipeline.config import PipelineError
from pipeline.export.records import RECALIBRATION, Ending, Records, Used

FRACTIONS = (0.3, 0.2, 0.5)


@pytest.fixture
def records(mlflow_database: str, request: pytest.FixtureRequest) -> Records:
    return Records(mlflow_database, "records", f"{request.node.name}_")


def test_a_record_holds_what_its_pass_began_with(records: Records) -> None:
    dataset = Dataset(simulate(30, 1))
    manifest = stable_split(dataset, 5, FRACTIONS)
    begun = records.begin(RECALIBRATION, {"plan_quality": 2}, "known", Used.of(manifest, dataset))
    (found,) = records.all()
    assert found == begun
    assert (found.open, found.spent, found.known) == (True, True, "known")
    assert (found.used.digest, found.used.seed) == (dataset.hash, 5)
    assert found.used.split(dataset) == manifest
    assert found.traces == set(dataset.ids)
    records.end(found, Ending("fine", {"plan_quality": 2}, spent=False))
    (ended,) = records.all()
    assert (ended.decision, ended.open, ended.spent, ended.used) == ("fine", False, False, found.used)


def test_thousands_of_traces_and_ids_of_any_kind(records: Records) -> None:
    places = tuple(Place("testset", f" ünïcödé  {i:032x}", f"{i:016x}", f"{i:016x}") for i in range(3000))
    used = Used("d", 0, FRACTIONS, places)
    records.begin(RECALIBRATION, {}, used=used)
    (found,) = records.all()
    assert found.used == used


def test_a_run_that_is_no_record_any_more_is_named(records: Records, mlflow_database: str) -> None:
    from mlflow import MlflowClient

    begun = records.begin(RECALIBRATION, {})
    MlflowClient(mlflow_database).set_tag(begun.run_id, "gpa.used.0", "{}")
    with pytest.raises(PipelineError, match=f"run {begun.run_id} is no record of a decision that can be read"):
        records.all()
