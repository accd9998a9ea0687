"""Fixtures that every package's tests share."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.judges.counting_model import CountingModel
    from tests.judges.scripted_server import ScriptedServer

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


def _load(name: str) -> Any:
    """A helper module of the tests, which cannot import each other by name (`--import-mode=importlib`)."""
    spec = importlib.util.spec_from_file_location(Path(name).name, REPOSITORY / "tests" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    return module
