from __future__ import annotations

import json
import shutil
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import PipelineError, TrackingConfig
from pipeline.export.records import RECALIBRATION, Ending, Records
from pipeline.tracking import RUN_FILE, Tracker, connect, default_uri, refusals


@pytest.fixture(scope="module")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store: making its tables takes seconds, so the tests copy it."""
    output = tmp_path_factory.mktemp("store") / "out put ü#1%20"
    (output / "run").mkdir(parents=True)
    Tracker.open(output / "run", TrackingConfig(), output, "first")
    return output


@pytest.fixture
def output(fresh_store: Path, tmp_path: Path) -> Path:
    shutil.copy(fresh_store / "mlflow.db", tmp_path / "mlflow.db")
    (tmp_path / "run").mkdir()
    return tmp_path


def opened(output: Path, experiment: str = "mine") -> Tracker:
    return Tracker.open(output / "run", TrackingConfig(experiment=experiment), output, "name")


def stored(tracker: Tracker) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=tracker.uri).get_run(tracker.run_id)


def test_the_store_is_made_where_the_runs_are(fresh_store: Path) -> None:
    assert (fresh_store / "mlflow.db").is_file()
    assert default_uri(Path("/runs/my runs")) == "sqlite:////runs/my runs/mlflow.db"


def test_what_is_logged_is_there(output: Path) -> None:
    tracker = opened(output)
    tracker.log(
        params={"search.optimizer": "gepa", "long": "x" * 10_000},
        metrics={"coverage/tuned": 0.75, "alpha/seed": None, "odd": float("nan")},
        tags={"simulated": "true"},
    )
    folder = output / "run" / "programs" / "tuned"
    folder.mkdir(parents=True)
    (folder / "rubric.md").write_text("judge")
    (output / "run" / "report.html").write_text("<html>")
    tracker.finish(output / "run", ["programs", "report.html", "not-there.json"])

    run = stored(tracker)
    assert run.data.params["search.optimizer"] == "gepa"
    assert len(run.data.params["long"]) == 6000
    assert run.data.metrics == {"coverage/tuned": 0.75}
    assert run.data.tags["simulated"] == "true"
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "name"
    artifacts = output / "mlartifacts" / tracker.run_id / "artifacts"
    assert (artifacts / "programs" / "tuned" / "rubric.md").read_text() == "judge"
    assert (artifacts / "report.html").is_file()


def test_many_rows_are_sent_in_batches(output: Path) -> None:
    tracker = opened(output)
    tracker.log(metrics={f"m/{i}": float(i) for i in range(1234)})
    assert len(stored(tracker).data.metrics) == 1234


def test_the_same_folder_continues_its_run(output: Path) -> None:
    first = opened(output)
    first.log(params={"seed": 1}, metrics={"coverage/tuned": 0.5})
    first.finish(output / "run", failed=True)
    assert stored(first).info.status == "FAILED"

    second = opened(output)
    assert second.run_id == first.run_id
    assert stored(second).info.status == "RUNNING"
    second.log(params={"seed": 2}, metrics={"coverage/tuned": 0.75})
    assert stored(second).data.params == {"seed": "1"}
    assert stored(second).data.metrics == {"coverage/tuned": 0.75}


def test_a_run_that_was_deleted_is_made_again(output: Path) -> None:
    from mlflow import MlflowClient

    first = opened(output)
    MlflowClient(tracking_uri=first.uri).delete_run(first.run_id)
    assert opened(output).run_id != first.run_id


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"uri": "sqlite:////elsewhere.db", "run_id": "x"}'])
def test_a_run_file_that_says_nothing_useful(output: Path, content: str) -> None:
    (output / "run" / RUN_FILE).write_text(content)
    tracker = opened(output)
    assert json.loads((output / "run" / RUN_FILE).read_text())["run_id"] == tracker.run_id


@pytest.mark.parametrize("uri", ["nowhere://x", "file:///tmp/none", "sqlite:///{tmp}/text.db"])
def test_a_store_that_refuses(tmp_path: Path, uri: str) -> None:
    (tmp_path / "text.db").write_text("this is no database, whatever its name says; it is quite long too")
    with pytest.raises(PipelineError, match="refused"):
        Tracker.open(tmp_path, TrackingConfig(uri=uri.format(tmp=tmp_path)), tmp_path, "name")


def test_a_database_without_its_driver(tmp_path: Path) -> None:
    """Whichever is not installed: SQLAlchemy's own error is that of an import."""
    drivers = {"psycopg": "postgresql+psycopg", "pymysql": "mysql+pymysql", "pg8000": "postgresql+pg8000"}
    driver = next(name for name in drivers if find_spec(name) is None)
    uri = f"{drivers[driver]}://me:pa'ss secret-1@127.0.0.1:9/db"
    with pytest.raises(PipelineError, match=rf"\[hidden\]@127.*refused: .*{driver}.*driver is installed") as caught:
        Tracker.open(tmp_path, TrackingConfig(uri=uri), tmp_path, "name")
    assert "secret-1" not in str(caught.value)


def test_a_server_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1.*refused.*accepted is the URI of a server that is running"):
        Tracker.open(tmp_path, TrackingConfig(uri="http://127.0.0.1:9"), tmp_path, "name")


def test_a_server_puts_nothing_on_stdout(mlflow_server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = TrackingConfig(uri=mlflow_server, experiment="quiet")
    Tracker.open(tmp_path, settings, tmp_path, "name").finish(tmp_path)
    records = Records(mlflow_server, "quiet", "q_")
    records.end(records.begin(RECALIBRATION, {}), Ending("fine", {}))
    assert capfd.readouterr().out == ""


def test_a_quiet_store(output: Path, capfd: pytest.CaptureFixture[str]) -> None:
    opened(output).finish(output / "run")
    assert capfd.readouterr() == ("", "")


def test_a_server_that_is_not_there_is_told_in_a_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(PipelineError) as error, refusals("http://127.0.0.1:9"):
        connect("http://127.0.0.1:9").get_experiment_by_name("x")
    said = str(error.value).partition(";")[0]
    assert said == "MLflow at http://127.0.0.1:9 refused: no answer: Connection refused"


def test_a_database_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    """MLflow alone would try for 100 seconds."""
    pytest.importorskip("psycopg")
    started = time.monotonic()
    with pytest.raises(PipelineError, match=r"u:\[hidden\]@127\.0\.0\.1:9/db refused: .*Connection refused") as error:
        Tracker.open(tmp_path, TrackingConfig(uri="postgresql+psycopg://u:secret-1@127.0.0.1:9/db"), tmp_path, "name")
    assert time.monotonic() - started < 10
    assert "secret-1" not in str(error.value)


@pytest.mark.parametrize("reason", ["failed with error code 401 != 200", "PERMISSION_DENIED: no"])
def test_who_is_not_let_in_is_told_how(reason: str) -> None:
    from mlflow.exceptions import MlflowException

    told = pytest.raises(PipelineError, match="accepted is a user who may do this: MLFLOW_TRACKING_USERNAME")
    with told, refusals("http://127.0.0.1:9"):
        raise MlflowException(reason, error_code=1)
