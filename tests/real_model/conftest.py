"""A real language model on loopback, where its packages are installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from experiments.small_model import SmallModel, SmallModelMissing


@pytest.fixture(scope="session")
def small_model() -> Iterator[SmallModel]:
    try:
        model = SmallModel(context=4096)
    except SmallModelMissing as missing:
        pytest.skip(str(missing))
    with model:
        yield model
