"""Fixtures that every package's tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
