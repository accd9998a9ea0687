"""Fixtures that every package's tests share."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
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
    name = "scripted_server"
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "tests" / "judges" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    server: type[ScriptedServer] = module.ScriptedServer
    return server
