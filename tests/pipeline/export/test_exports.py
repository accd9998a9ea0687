"""What an export leaves on record, and what a re-calibration makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.program import JudgeSuite, Knobs, seed_suite
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.simulated import FaultRates, rate, simulate
from pipeline.config import validated
from pipeline.config_file import parse_config
from pipeline.export.exports import used_by
from pipeline.export.records import EXPORT, Record, Records, Used
from pipeline.export.run_export import Target, TunedRun, export_to_mlflow
from pipeline.mlflow_traces import MlflowTraces
from pipeline.prepare import prepare
from pipeline.recalibration.config import RecalibrationConfig
from pipeline.recalibration.labels import LabelSource, PassLabels

if TYPE_CHECKING:
    from tests.mlflow_rows import MlflowRows

MakeRun = Callable[..., Path]
SUITE = seed_suite(Knobs(model="openai/m", layout="mlflow"), ("plan_quality",))


class Place:
    """An experiment of which both the traces and the judges are."""

    def __init__(self, uri: str, name: str) -> None:
        self.uri = uri
        self.name = name

    def export(self, path: Path) -> tuple[str, ...]:
        target = Target(self.uri, self.name, f"{self.name}_")
        return export_to_mlflow(TunedRun.open(path), target, lambda _: None).notes

    def records(self) -> list[Record]:
        return Records(self.uri, self.name, f"{self.name}_").all()

    def labels(self) -> PassLabels:
        """What the next pass would work with."""
        mlflow = {"uri": self.uri, "experiment": self.name, "prefix": f"{self.name}_"}
        config = validated(RecalibrationConfig, {"mlflow": mlflow}, "test")
        return LabelSource(config, MlflowTraces(self.uri, self.name), self.records(), lambda _: None).next(SUITE)


@pytest.fixture
def place(mlflow_database: str, request: pytest.FixtureRequest) -> Place:
    return Place(mlflow_database, str(request.node.name))


@pytest.fixture
def log(place: Place, mlflow_rows: type[MlflowRows], tmp_path: Path) -> Callable[..., Sequence[LabeledTrace]]:
    """Writes labelled runs of 40 tasks to the experiment; `time` makes them other runs of these."""

    def logged(time: int) -> Sequence[LabeledTrace]:
        made = mlflow_rows(place.uri, place.name, tmp_path / "files")
        made.prefix = f"{place.name}_"
        rows = [replace(row, scores=()) for row in rate(simulate(40, 7, FaultRates().scaled(2)), 7)]
        roots = [replace(row.trace.spans[0], name=f"run {time}") for row in rows]
        traces = [
            replace(row.trace, trace_id=f"{row.trace_id} {time}", spans=(root, *row.trace.spans[1:]))
            for row, root in zip(rows, roots, strict=True)
        ]
        return made.log(replace(row, trace=trace) for row, trace in zip(rows, traces, strict=True))

    return logged


def imported(place: Place) -> list[LabeledTrace]:
    """The labelled traces as `gpa-judges import` reads them."""
    return list(place.labels().dataset)


def test_what_judges_were_tuned_and_proved_on_is_not_held_out(
    place: Place, log: Callable[..., Any], make_run: MakeRun
) -> None:
    log(1)
    rows = imported(place)
    run = TunedRun.open(make_run(SUITE, "PASS", rows))
    place.export(run.folder.path)
    (record,) = place.records()
    assert (record.kind, record.before, record.after, record.spent) == (EXPORT, {}, {"plan_quality": 1}, True)
    assert len(place.labels().dataset) == 0
    # Other runs of the same tasks are new, and a task stays where it was.
    log(2)
    again = place.labels()
    assert len(again.fresh) == len(again.dataset) == 40
    parts = {one.trace_id: one.part for one in record.used.places}
    part_of = {row.group: parts[row.trace_id] for row in rows}
    for part, ids in again.manifest.parts.items():
        assert {part_of[again.dataset[trace_id].group] for trace_id in ids} == {part}


def test_labels_that_no_gate_has_read_can_be_used_again_where_they_were(
    place: Place, log: Callable[..., Any], make_run: MakeRun
) -> None:
    log(1)
    place.export(make_run(SUITE, None, imported(place)))
    (record,) = place.records()
    assert (record.after, record.spent) == ({}, False)
    assert place.labels().fresh == frozenset()
    log(2)
    again = place.labels()
    assert (len(again.fresh), again.older) == (40, 40)
    held_out = {one.trace_id for one in record.used.places if one.part == "testset"}
    assert held_out == record.traces & set(again.manifest.testset)


def test_labels_that_a_gate_reads_after_the_export_are_spent(
    place: Place, log: Callable[..., Any], make_run: MakeRun
) -> None:
    log(1)
    rows = imported(place)
    place.export(make_run(SUITE, None, rows))
    for _ in range(2):
        place.export(make_run(SUITE, "INCONCLUSIVE", rows))
    assert [record.spent for record in place.records()] == [False, True]
    log(2)
    again = place.labels()
    read = {row.trace_id for row in rows}
    assert len(again.dataset) == 40
    assert not read & set(again.dataset.ids)


def test_the_same_export_again_adds_nothing_and_a_stopped_one_is_ended(
    place: Place, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    path = make_run(SUITE, "PASS")
    with monkeypatch.context() as patch:
        patch.setattr(Records, "end", die)
        with pytest.raises(KeyboardInterrupt):
            place.export(path)
    assert [record.open for record in place.records()] == [True]
    for _ in range(2):
        place.export(path)
        (record,) = place.records()
        assert (record.decision, record.before, record.after) == ("exported", {}, {"plan_quality": 1})


def better(text: str) -> JudgeSuite:
    program = SUITE.programs["plan_quality"]
    return SUITE.with_program(program.with_parts({"rubric": text}, "test"))


def test_a_judge_that_took_anothers_place_is_on_record(place: Place, make_run: MakeRun) -> None:
    for number, text in enumerate(("Look.", "Look twice.")):
        path = make_run(better(text), "PASS")
        place.export(path.rename(path.with_name(f"run-{number}-1a2b3c4d")))
    assert [(record.before, record.after) for record in place.records()] == [
        ({}, {"plan_quality": 1}),
        ({"plan_quality": 1}, {"plan_quality": 2}),
    ]


def test_what_was_tuned_on_is_known_when_the_data_is_gone_and_the_groups_were_set_by_hand(
    place: Place, log: Callable[..., Any], make_run: MakeRun, tmp_path: Path
) -> None:
    log(1)
    rows = imported(place)
    path = make_run(SUITE, "PASS", [replace(row, group=f"mine {row.group}") for row in rows])
    (tmp_path / "data.jsonl").unlink()
    assert place.export(path) == ()
    (record,) = place.records()
    assert all(one.group and one.task for one in record.used.places)
    parts = {one.trace_id: one.part for one in record.used.places}
    part_of = {row.group: parts[row.trace_id] for row in rows}
    log(2)
    again = place.labels()
    for part, ids in again.manifest.parts.items():
        assert {part_of[again.dataset[trace_id].group] for trace_id in ids} == {part}


def test_a_run_notes_the_tasks_of_its_traces(tmp_path: Path) -> None:
    Dataset(simulate(20, 1)).save(tmp_path / "data.jsonl")
    judges = {"model": "simulated/default", "dimensions": ["plan_quality"], "holistic": False}
    config = parse_config({"name": "a-run", "data": {"path": "data.jsonl"}, "judges": judges}, "test", tmp_path)
    run = prepare(config, lambda _: None)
    (tmp_path / "data.jsonl").unlink()
    assert used_by(run.folder, config) == (Used.of(run.manifest, run.dataset), "")


@pytest.mark.parametrize("damage", ["missing", "changed", "of another split"])
def test_tasks_that_nobody_knows_are_said_and_the_contents_are_on_record(
    mlflow_database: str, make_run: MakeRun, tmp_path: Path, damage: str
) -> None:
    place = Place(mlflow_database, f"unknown-{damage}".replace(" ", "-"))
    path = make_run(SUITE, "PASS")
    noted = (path / "places.json").read_text()
    if damage == "missing":
        (path / "places.json").unlink()
    elif damage == "changed":
        (path / "places.json").write_text(noted.replace('"testset"', '"trainset"'))
    else:
        make_run(SUITE, "PASS", simulate(20, 2))
        (path / "places.json").write_text(noted)
    rows = list(Dataset.load(tmp_path / "data.jsonl"))
    Dataset([*rows, *simulate(1, 99)]).save(tmp_path / "data.jsonl")
    (note,) = place.export(path)
    assert "places.json is missing or damaged, and the data is not there as it was split (the split has 20" in note
    (record,) = place.records()
    assert len(record.traces) == 20
    assert {(one.group, one.task) for one in record.used.places} == {("", "")}
    assert all(one.content for one in record.used.places)
    Dataset(rows).save(tmp_path / "data.jsonl")
    assert place.export(path) == ()
    assert all(one.group for one in place.records()[-1].used.places)


def test_a_run_without_its_split_says_so(place: Place, make_run: MakeRun) -> None:
    path = make_run(SUITE, "PASS")
    (path / "split.json").unlink()
    (note,) = place.export(path)
    assert "split.json is missing or damaged: a re-calibration may hold out" in note
