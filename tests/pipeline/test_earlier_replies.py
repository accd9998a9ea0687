"""Tests of what earlier evaluations tell of replies, on what `gpa-judges evaluate` writes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.simulated import simulate
from pipeline.earlier_replies import earlier_replies
from pipeline.evaluate import load_judgments
from pipeline.measure import Measurement, measure

MODEL = "simulated/default"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    Dataset(simulate(8, 0)).save(tmp_path / "data.jsonl")
    measure(Measurement(tmp_path / "data.jsonl", out=tmp_path / "runs" / "one"), lambda _: None)
    return tmp_path / "runs"


def test_the_means_of_each_judge_and_of_all(results: Path) -> None:
    found = earlier_replies(results)
    judgments = load_judgments(results / "one" / "judgments.jsonl")
    calling = [judgment.completion_tokens for judgment in judgments if judgment.dimension == "tool_calling"]
    others = [judgment.completion_tokens for judgment in judgments if not judgment.dimension.startswith("plan")]
    assert list(found) == [MODEL]
    assert found[MODEL]["tool_calling"] == pytest.approx(sum(calling) / 8)
    assert found[MODEL][""] == pytest.approx(sum(others) / (8 * 5))
    assert len(found[MODEL]) == 6, "what a plan was extracted for is left out"


def test_the_newest_evaluation_of_a_model_counts_and_what_cannot_be_read_does_not(results: Path) -> None:
    one = json.loads((results / "one" / "judgments.jsonl").read_text().splitlines()[0])
    for name, tokens, age in (("two", 70, 10**9), ("old", 9, 1)):
        (results / name).mkdir()
        (results / name / "judgments.jsonl").write_text(json.dumps({**one, "completion_tokens": tokens}))
        (results / name / "metrics.json").write_text(json.dumps({"model": "openai/other"}))
        os.utime(results / name / "metrics.json", (age, age))
    for name, metrics, judgments in (
        ("empty", "", ""),
        ("list", "[]", "{}"),
        ("no judgments", '{"model": "a"}', None),
        ("not judgments", '{"model": "b"}', "[1]"),
        ("cut", '{"model": "c"}', '{"outcome": "sc'),
        ("odd", '{"model": ["d"]}', "{}"),
        ("deep", "[" * 100_000, "{}"),
        ("deep judgments", '{"model": "e"}', "[" * 100_000),
        ("no number", '{"model": "f"}', json.dumps({**one, "completion_tokens": float("nan")})),
        ("no count", '{"model": "g"}', json.dumps({**one, "completion_tokens": 10**30})),
    ):
        (results / name).mkdir()
        (results / name / "metrics.json").write_text(metrics)
        if judgments is not None:
            (results / name / "judgments.jsonl").write_text(judgments)
    (results / "gone").mkdir()
    (results / "gone" / "metrics.json").symlink_to("nothing")
    found = earlier_replies(results)
    assert set(found) == {MODEL, "openai/other"}
    assert found["openai/other"] == {one["dimension"]: 70, "": 70}
    assert earlier_replies(results / "nowhere") == {}
