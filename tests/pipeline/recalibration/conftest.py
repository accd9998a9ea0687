"""An experiment in a real MLflow store with champions, and passes whose work a test writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from judges.ledger.budget import Usage
from judges.program import JudgeSuite, seed_suite
from labeled_traces.simulated import FaultRates, rate, simulate
from pipeline.export.exported import Provenance
from pipeline.export.records import Record, Records
from pipeline.export.reference import REFERENCE, Reference
from pipeline.export.registry import CHAMPION, Registry
from pipeline.export.store import Store
from pipeline.held_out import TEST_USES
from pipeline.recalibration import passes
from pipeline.recalibration.config import load_recalibration
from pipeline.recalibration.decide import Decided, Decision, Work
from pipeline.recalibration.home import Passed
from pipeline.recalibration.passes import recalibrate
from pipeline.recalibration.rollback import rollback

if TYPE_CHECKING:
    from tests.mlflow_rows import MlflowRows

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

    def delete(self, name: str, version: int) -> None:
        from mlflow import MlflowClient

        MlflowClient(self.uri).delete_prompt_version(f"{self.prefix}{name}", str(version))

    def decisions(self) -> list[str]:
        return [record.decision for record in self.records()]

    def set(self, **values: Any) -> None:
        """Changes the file."""
        given = yaml.safe_load(self.path.read_text(encoding="utf-8"))
        self.path.write_text(yaml.safe_dump(given | values), encoding="utf-8")

    @staticmethod
    def better(suite: JudgeSuite, name: str, text: str) -> JudgeSuite:
        """The suite with one judge changed."""
        program = suite.programs[name]
        return suite.with_program(program.with_parts({"rubric": f"{program.rubric}\n{text}"}, "test"))

    @staticmethod
    def decided(decision: Decision, challenger: JudgeSuite | None = None) -> Decided:
        return Decided(decision, ("because",), {}, Reference("span", {"f1": 0.5}), Usage(), challenger=challenger)

    @staticmethod
    def noting(seen: list[Work]) -> Callable[[Work], Decided]:
        """Decides that all is fine, and keeps what it was given."""

        def answer(work: Work) -> Decided:
            seen.append(work)
            return Place.decided(Decision.FINE)

        return answer

    @staticmethod
    def some(n: int, seed: int) -> list[Any]:
        return [replace(row, scores=()) for row in rate(simulate(n, seed, FaultRates().scaled(2)), seed)]

    @staticmethod
    def stop(_: Work) -> Decided:
        """Where a process is killed."""
        raise KeyboardInterrupt

    @staticmethod
    def stop_after_the_gate(work: Work) -> Decided:
        """Where a process is killed that has read the held-out labels."""
        work.folder.mkdir(exist_ok=True)
        (work.folder / TEST_USES).touch()
        raise KeyboardInterrupt

    def stopped(self) -> None:
        """A pass that is killed."""
        with pytest.raises(KeyboardInterrupt):
            self.run()

    def stopped_at(
        self, part: type[Any], step: str, monkeypatch: pytest.MonkeyPatch, command: Callable[[], Any] | None = None
    ) -> None:
        """A command, else a pass, that is killed when it comes to this step of this class."""

        def die(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(part, step, die)
            with pytest.raises(KeyboardInterrupt):
                (command or self.run)()

    def killed_while_promoting(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A pass that is killed when it has registered the live scorer of this dimension, and its alias has not moved
        yet."""
        set_alias = Store.set_alias

        def dies(store: Store, prompt: str, alias: str, version: int) -> None:
            if alias == CHAMPION and prompt.endswith(name):
                raise KeyboardInterrupt
            set_alias(store, prompt, alias, version)

        with monkeypatch.context() as patch:
            patch.setattr(Store, "set_alias", dies)
            self.stopped()

    def runs_its_champions(self) -> bool:
        """Whether the scorers that MLflow runs are the champions."""
        from mlflow.genai.scorers.registry import MlflowTrackingStore

        registry, scorers = self.registry(), MlflowTrackingStore(self.uri)
        live: dict[str, Any] = {
            name: scorers.get_scorer(registry.experiment_id, f"{self.prefix}{name}") for name in registry.champions()
        }
        return all(live[name].instructions == judge.template for name, judge in registry.champions().items())


@pytest.fixture
def suite() -> JudgeSuite:
    return seed_suite(dimensions=("plan_quality", "tool_calling"))


@pytest.fixture
def make_place(mlflow_database: str, tmp_path: Path, mlflow_rows: type[MlflowRows]) -> Callable[..., Place]:
    """Makes a place without champions; `values` are of its file."""

    def made(uri: str = mlflow_database, **values: Any) -> Place:
        return Place(uri, mlflow_database, tmp_path, mlflow_rows, **values)

    return made


@pytest.fixture
def place(make_place: Callable[..., Place], suite: JudgeSuite) -> Place:
    made = make_place()
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
