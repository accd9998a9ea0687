from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.config import PipelineError
from pipeline.optimizers.study import Study, open_study

SIZES = {"a": 6, "b": 4, "c": 1}


def run(study: Study, points: int, sizes: dict[str, int] | None = None) -> list[tuple[int, ...]]:
    """Best where a = 2 and b = 1; b = 3 is not allowed."""
    while len(study.tried) < points:
        asked = study.ask(sizes or SIZES, [{"a": 0, "b": 0, "c": 0}])
        a, b = asked.params["a"], asked.params["b"]
        allowed = b < 3
        study.tell(asked, -abs(a - 2) - abs(b - 1) if allowed else None, {"allowed": allowed}, {"b": b - 2.0})
    return [tuple(tried.point.values()) for tried in study.tried]


def test_the_start_comes_first_and_the_best_is_found() -> None:
    points = run(Study(0), 30)
    assert points[0] == (0, 0, 0)
    assert (2, 1, 0) in points
    assert sum(b == 3 for _, b, _ in points[15:]) <= 3  # learnt, not only drawn: 15 / 4 would be


def test_a_point_follows_from_the_seed_and_what_was_tried() -> None:
    assert run(Study(0), 20) == run(Study(0), 20)
    assert run(Study(0), 20) != run(Study(1), 20)


def test_it_uses_no_generator_of_the_process() -> None:
    import numpy as np

    np.random.seed(1)
    before = np.random.get_state()[1].tolist()  # type: ignore[index]
    run(Study(0), 12)
    assert np.random.get_state()[1].tolist() == before  # type: ignore[index]


def test_starts_are_tried_once_each_also_if_they_come_later() -> None:
    study = Study(0)
    starts = [{"a": 1, "b": 1, "c": 0}, {"a": 1, "b": 1, "c": 0}, {"a": 5, "b": 0, "c": 0}]
    for _ in range(2):
        study.tell(study.ask(SIZES, starts), 0.0, {})
    assert [dict(tried.point) for tried in study.tried] == [starts[0], starts[2]]
    late = {"a": 4, "b": 2, "c": 0}
    study.tell(study.ask(SIZES, [*starts, late]), 0.0, {})
    assert dict(study.tried[-1].point) == late


@pytest.mark.parametrize("stop_at", [1, 7, 15])
def test_a_stored_study_goes_on_as_one_that_never_stopped(tmp_path: Path, stop_at: int) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with open_study("x", 3, url) as study:
        run(study, stop_at)
        study.ask(SIZES, [])  # asked, not told: a kill
    with open_study("x", 3, url) as study:
        assert len(study.tried) == stop_at
        assert study.tried[0].record == {"allowed": True}
        assert run(study, 20) == run(Study(3), 20)
    with open_study("another", 3, url) as study:
        assert study.tried == []


def test_a_stored_study_opens_without_a_word(tmp_path: Path) -> None:
    code = "import sys; from pipeline.optimizers.study import open_study\nwith open_study('x', 0, sys.argv[1]): pass"
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path}/s.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    assert (done.stdout, done.stderr) == ("", "")


def test_ranges_may_grow(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with open_study("x", 0, url) as study:
        before = run(study, 10)
    with open_study("x", 0, url) as study:
        after = run(study, 40, {"a": 9, "b": 4, "c": 2})
    assert after[:10] == before
    assert any(a > 5 or c for a, _, c in after)


def test_stored_variants_keep_their_numbers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with open_study("x", 0, url) as study:
        assert study.in_order({"rubric": ["A", "B"]}) == {"rubric": ["A", "B"]}
    with open_study("x", 0, url) as study:
        assert study.in_order({"rubric": ["C", "B", "A"]}) == {"rubric": ["A", "B", "C"]}
    with open_study("x", 0, url) as study:
        with pytest.raises(PipelineError, match="made with 1 variants of rubric that the bank lacks now"):
            study.in_order({"rubric": ["A", "C"]})
        assert study.in_order({"rubric": ["A", "B", "C"]}) == {"rubric": ["A", "B", "C"]}


def test_without_a_storage_the_order_is_as_given() -> None:
    assert Study(0).in_order({"rubric": ["B", "A", "B"]}) == {"rubric": ["B", "A"]}
