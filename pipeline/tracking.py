"""One MLflow run per experiment. The client is used directly, so no process-wide MLflow state is touched."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from judges.redact import check_tracking_uri, hide_in_uri, redact
from pipeline.config import PipelineError, TrackingConfig
from pipeline.local_store import database_uri, ensure_store

RUN_FILE = "mlflow.json"
_PARAM_LENGTH = 6000
_BATCH = 100


class Tracker:
    """The MLflow run of one run folder; the same folder started again continues the same run.

    Opened before the first call, so that a store that cannot be reached costs nothing.
    """

    def __init__(self, client: Any, uri: str, run_id: str) -> None:
        self._client = client
        self.uri = uri
        self.run_id = run_id

    @classmethod
    def open(cls, run_dir: Path, settings: TrackingConfig, output: Path, name: str) -> Tracker:
        """Finds the run of `run_dir` in the store, or makes it.

        Raises:
            PipelineError: the store cannot be reached or refuses.
        """
        uri = settings.uri or default_uri(output)
        with refusals(uri):
            client = connect(uri, create=True)
            run_id = _known_run(client, run_dir, uri)
            if run_id is None:
                # A local store keeps its artifacts beside it; a server decides for itself.
                artifacts = None if settings.uri else (output / "mlartifacts").absolute().as_uri()
                run_id = client.create_run(
                    find_experiment(client, settings.experiment, artifacts), run_name=name
                ).info.run_id
                saved = {"uri": hide_in_uri(uri), "experiment": settings.experiment, "run_id": run_id}
                (run_dir / RUN_FILE).write_text(json.dumps(saved, indent=1), encoding="utf-8")
            client.update_run(run_id, status="RUNNING")
        return cls(client, uri, run_id)

    def log(
        self,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float | None] | None = None,
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Params that the run already has are left as they are; metrics without a value are left out, never zero.

        Raises:
            PipelineError: the store refuses.
        """
        from mlflow.entities import Metric, Param, RunTag

        with refusals(self.uri):
            known = self._client.get_run(self.run_id).data.params
            now = int(time.time() * 1000)
            rows = [
                *(Param(key, str(value)[:_PARAM_LENGTH]) for key, value in (params or {}).items() if key not in known),
                *(RunTag(key, str(value)) for key, value in (tags or {}).items()),
                *(
                    Metric(key, float(value), now, 0)
                    for key, value in (metrics or {}).items()
                    if value is not None and math.isfinite(value)
                ),
            ]
            for start in range(0, len(rows), _BATCH):
                batch = rows[start : start + _BATCH]
                self._client.log_batch(
                    self.run_id,
                    params=[row for row in batch if isinstance(row, Param)],
                    metrics=[row for row in batch if isinstance(row, Metric)],
                    tags=[row for row in batch if isinstance(row, RunTag)],
                )

    def finish(self, run_dir: Path, artifacts: Sequence[str] = (), *, failed: bool = False) -> None:
        """Uploads these files and folders of the run folder (those that exist), and ends the run.

        Raises:
            PipelineError: the store refuses.
        """
        with refusals(self.uri):
            for name in artifacts:
                path = run_dir / name
                if path.is_dir():
                    self._client.log_artifacts(self.run_id, str(path), artifact_path=name)
                elif path.is_file():
                    self._client.log_artifact(self.run_id, str(path))
            self._client.set_terminated(self.run_id, status="FAILED" if failed else "FINISHED")


def default_uri(output: Path) -> str:
    """The SQLite store of an output folder."""
    return database_uri(output / "mlflow.db")


def connect(uri: str, *, create: bool = False) -> Any:
    """MLflow's client. `create`: make the SQLite file that the URI names, if there is none. Inside `refusals` only.

    Raises:
        PipelineError: there is no such file.
    """
    from mlflow import MlflowClient

    check_tracking_uri(uri)
    _check_answers(uri)
    ensure_store(uri, create=create)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _check_answers(uri: str) -> None:
    """Raises: OSError, where nothing listens at a database's port: MLflow would try for minutes; ImportError."""
    parts = urlsplit(uri)
    if re.match("postgresql|mysql|mssql", parts.scheme) and parts.hostname and parts.port:
        from sqlalchemy import make_url

        make_url(uri).get_dialect().import_dbapi()  # a driver that is missing is told first
        socket.create_connection((parts.hostname, parts.port), timeout=10).close()


def _known_run(client: Any, run_dir: Path, uri: str) -> str | None:
    """The run that this folder already has in this store."""
    from mlflow.exceptions import MlflowException

    try:
        saved = json.loads((run_dir / RUN_FILE).read_text(encoding="utf-8"))
        if saved["uri"] != hide_in_uri(uri):
            return None
        run = client.get_run(saved["run_id"])
    except (OSError, ValueError, KeyError, TypeError, MlflowException):
        return None
    return str(run.info.run_id) if run.info.lifecycle_stage == "active" else None


def find_experiment(client: Any, name: str, artifacts: str | None = None) -> str:
    """The id of the experiment of this name, which is made if there is none."""
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=artifacts))
        except MlflowException:  # another process was faster
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return str(found.experiment_id)


@contextmanager
def refusals(uri: str) -> Iterator[None]:
    """MLflow's and its transports' errors as one of ours."""
    _quiet()
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError, OSError, ImportError) as error:
        reason = _in_short((str(error).strip().splitlines() or [type(error).__name__])[0])
        # A store that answers says itself what it does not accept.
        answered = getattr(error, "error_code", "INTERNAL_ERROR") != "INTERNAL_ERROR"
        accepted = (
            "; accepted is the URI of a server that is running (what was done is kept: the same command goes on), or "
            "of a file: sqlite:////path/mlflow.db"
        )
        if re.search(r"error code 40[13]\b|UNAUTHENTICATED|PERMISSION_DENIED", str(error)):
            answered = False
            accepted = (
                "; accepted is a user who may do this: MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or "
                "MLFLOW_TRACKING_TOKEN in the environment"
            )
        if isinstance(error, ImportError):
            accepted = "; accepted is the URI of a database whose driver is installed beside gpa-judges, or of a server"
        shown = hide_in_uri(uri)
        said = redact(reason.replace(uri, shown))
        raise PipelineError(f"MLflow at {shown} refused: {said}{'' if answered else accepted}") from error


def _in_short(reason: str) -> str:
    """Without the three wrappings of a connection that fails."""
    if "Max retries exceeded" not in reason:
        return reason
    cause = re.search(r"(?<=\] )[A-Z][\w ]+|timed out|too many \d+ error responses|certificate verify failed", reason)
    return f"no answer: {cause[0]}" if cause else reason


def _quiet() -> None:
    # Set before MLflow's import: it reads them then, and sets its own log level, which is set again after it.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    # It prints addresses on stdout, which belongs to our results.
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    # Half a minute for a server that is being started again, instead of four.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "4")
    import mlflow  # noqa: F401

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
