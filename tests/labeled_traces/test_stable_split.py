from __future__ import annotations

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.simulated import simulate
from labeled_traces.stable_split import stable_split

FRACTIONS = (0.3, 0.2, 0.5)


def test_a_task_stays_where_it_is_whatever_else_there_is() -> None:
    rows = simulate(300, 1)
    first = stable_split(Dataset(rows[:150]), 0, FRACTIONS).parts
    both = stable_split(Dataset(rows), 0, FRACTIONS).parts
    for part, ids in first.items():
        assert set(ids) <= set(both[part])
    group_of = {row.trace_id: row.group for row in rows}
    groups = [{group_of[trace_id] for trace_id in ids} for ids in both.values()]
    assert not any(one & other for one, other in zip(groups, groups[1:] + groups[:1], strict=True))


def test_it_is_a_split_like_any_other() -> None:
    dataset = Dataset(simulate(400, 2))
    manifest = stable_split(dataset, 0, FRACTIONS)
    manifest.check(dataset)
    shares = [len(ids) / len(dataset) for ids in manifest.parts.values()]
    assert shares == pytest.approx(FRACTIONS, abs=0.08)
    assert stable_split(dataset, 1, FRACTIONS).testset != manifest.testset
