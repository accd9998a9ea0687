from __future__ import annotations

import json

from pipeline.metrics.estimate import Estimate


def test_json_form() -> None:
    assert Estimate(0.5, 0.4, 0.6, 12).to_json() == {"value": 0.5, "low": 0.4, "high": 0.6, "n": 12}
    undefined = Estimate(None, reason="no labels").to_json()
    assert undefined == {"value": None, "low": None, "high": None, "n": 0, "reason": "no labels"}
    json.dumps(undefined, allow_nan=False)
