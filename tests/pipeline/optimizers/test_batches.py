from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline.optimizers.batches import Minibatches, Rows

if TYPE_CHECKING:
    from tests.pipeline.optimizers.conftest import World


def test_rows_go_by_their_ids(world: World) -> None:
    rows = list(world.development.valset)
    loader = Rows(rows)
    assert loader.all_ids() == [row.trace_id for row in rows]
    assert loader.fetch(["val-3", "val-1"]) == [rows[3], rows[1]]
    assert len(loader) == len(rows)


@pytest.mark.parametrize(("size", "labelled"), [(8, 4), (7, 4), (10, 5), (24, 12)])
def test_minibatches_are_half_labelled_without_doubles_and_reach_every_trace(
    world: World, size: int, labelled: int
) -> None:
    rows = list(world.development.trainset)
    loader = Rows(rows)
    batches = Minibatches(rows, "tool_calling", size, seed=0)
    seen: list[str] = []
    for _ in range(8):
        ids = batches.next_minibatch_ids(loader, None)
        assert len(set(ids)) == len(ids) == size
        assert sum(bool(row.errors) for row in loader.fetch(ids)) == labelled
        seen += ids
    assert set(seen) == set(loader.all_ids())


def test_minibatches_of_few_clean_traces_are_filled_with_labelled_ones(world: World) -> None:
    rows = list(world.development.trainset)
    few = [row for row in rows if row.errors] + [row for row in rows if not row.errors][:1]
    ids = Minibatches(few, "tool_calling", 6, seed=0).next_minibatch_ids(Rows(few), None)
    assert sum(bool(row.errors) for row in Rows(few).fetch(ids)) == 5


def test_another_seed_gives_other_minibatches(world: World) -> None:
    rows = list(world.development.trainset)
    one, same, other = (
        Minibatches(rows, "tool_calling", 8, seed).next_minibatch_ids(Rows(rows), 0) for seed in (0, 0, 1)
    )
    assert one == same != other
