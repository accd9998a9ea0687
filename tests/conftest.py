"""Fixtures that every package's tests share."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.changed_agent import ChangedAgent
    from tests.judges.counting_model import CountingModel
    from tests.judges.models.faulty_server import FaultyServer
    from tests.judges.scripted_server import ScriptedServer
    from tests.mlflow_rows import MlflowRows
    from tests.mlflow_server import MlflowServer
    from tests.pipeline.batch.batch_server import BatchServer
    from tests.postgres_server import PostgresServer

REPOSITORY = Path(__file__).parent.parent

# Before any test imports LiteLLM or MLflow: neither may reach for the network at import.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real labelled traces, which is not part of the project."""
    folder = Path(os.environ.get("GPA_SHARED_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real traces here: set GPA_SHARED_DATA to a folder that holds them (looked in {folder.name})")
    return folder


@pytest.fixture(scope="session")
def scripted_server() -> type[ScriptedServer]:
    """An OpenAI-compatible server on loopback whose answers a test writes: see tests/judges/scripted_server.py."""
    server: type[ScriptedServer] = _load("judges/scripted_server").ScriptedServer
    return server


@pytest.fixture(scope="session")
def counting_model() -> type[CountingModel]:
    """A model in this process that counts what reaches it: see tests/judges/counting_model.py."""
    model: type[CountingModel] = _load("judges/counting_model").CountingModel
    return model


@pytest.fixture
def batch_server() -> Iterator[BatchServer]:
    """A server on loopback with the batch APIs of OpenAI and Anthropic: see tests/pipeline/batch/batch_server.py."""
    with _load("pipeline/batch/batch_server").BatchServer() as server:
        yield server


@pytest.fixture(scope="session")
def faulty_server() -> type[FaultyServer]:
    """A judge on loopback of which many replies are faulty: see tests/judges/models/faulty_server.py."""
    server: type[FaultyServer] = _load("judges/models/faulty_server").FaultyServer
    return server


@pytest.fixture(scope="session")
def one_mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with _load("mlflow_server").MlflowServer(tmp_path_factory.mktemp("mlflow")) as server:
        yield server


@pytest.fixture(scope="session")
def mlflow_server(one_mlflow_server: MlflowServer) -> str:
    """The URI of a real MLflow server on loopback, shared by all tests: each takes an experiment and prefix of its own.

    It takes seconds to start: see tests/mlflow_server.py.
    """
    return one_mlflow_server.uri


@pytest.fixture(scope="session")
def mlflow_database(one_mlflow_server: MlflowServer) -> str:
    """The same store without the way through HTTP, for tests of what is done and not of how it gets there: quicker."""
    return one_mlflow_server.database


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL server on loopback, which makes databases: see tests/postgres_server.py."""
    module = _load("postgres_server")
    binaries = module.find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL here: needed are `postgres` and `initdb` on PATH or in /usr/lib/postgresql/*/bin")
    pytest.importorskip("psycopg", reason="no psycopg here: pip install 'gpa-judges[postgres]'")
    with module.PostgresServer(binaries) as server:
        yield server


@pytest.fixture
def mlflow_rows() -> type[MlflowRows]:
    """Writes labelled traces to MLflow, as an agent and people would: see tests/mlflow_rows.py."""
    rows: type[MlflowRows] = _load("mlflow_rows").MlflowRows
    return rows


@pytest.fixture(scope="session")
def changed_agent() -> type[ChangedAgent]:
    """A champion that was tuned for an agent that then changed: see tests/changed_agent.py."""
    agent: type[ChangedAgent] = _load("changed_agent").ChangedAgent
    return agent


def _load(name: str) -> Any:
    """A helper module of the tests, which cannot import each other by name (`--import-mode=importlib`)."""
    spec = importlib.util.spec_from_file_location(Path(name).name, REPOSITORY / "tests" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module
