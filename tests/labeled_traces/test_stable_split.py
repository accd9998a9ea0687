from __future__ import annotations

from dataclasses import replace

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.simulated import simulate
from labeled_traces.stable_split import parts_by_key, places_of, stable_split
from labeled_traces.task_group import task_group
from labeled_traces.trace import Trace

FRACTIONS = (0.3, 0.2, 0.5)


def again(row: LabeledTrace, suffix: str, root: str = "") -> LabeledTrace:
    """The trace under another id; another name of its `root` makes it another content."""
    spans = tuple(
        replace(span, name=root or span.name) if span is row.trace.roots[0] else span for span in row.trace.spans
    )
    return replace(row, trace=Trace(f"{row.trace_id} {suffix}", spans))


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


def test_one_content_is_one_task_whatever_the_groups_say() -> None:
    rows = simulate(60, 3)
    twins = [replace(again(row, "twin"), group=f"{row.group} by another name") for row in rows]
    dataset = Dataset([*rows, *twins])
    manifest = stable_split(dataset, 0, FRACTIONS)
    manifest.check(dataset)
    assert all(manifest.parts.values())


def test_what_is_known_of_a_task_goes_before_seed_and_fractions() -> None:
    rows = simulate(60, 4)
    dataset = Dataset(rows)
    first = stable_split(dataset, 0, FRACTIONS)
    known = parts_by_key(places_of(first, dataset))
    later = Dataset(again(row, "later", "another run") for row in rows)
    second = stable_split(later, 7, (0.1, 0.1, 0.8), known)
    for part, ids in first.parts.items():
        assert set(second.parts[part]) == {f"{trace_id} later" for trace_id in ids}
    # Without the data nothing is known of groups, but a copy is known by its content.
    copies = Dataset(again(row, "copy") for row in rows)
    third = stable_split(copies, 7, (0.1, 0.1, 0.8), parts_by_key(places_of(first)))
    for part, ids in first.parts.items():
        assert {f"{trace_id} copy" for trace_id in ids} <= set(third.parts[part])


def test_a_task_is_known_by_what_a_reader_calls_it_too() -> None:
    rows = [replace(row, group=task_group(row.trace)) for row in simulate(60, 4)]
    own = Dataset(replace(row, group=f"my {row.trace_id}") for row in rows)
    first = stable_split(own, 0, FRACTIONS)
    known = parts_by_key(places_of(first, own))
    tuned = {task_group(own[trace_id].trace) for trace_id in (*first.trainset, *first.valset)}
    second = stable_split(Dataset(again(row, "later", "another run") for row in rows), 7, (0.1, 0.1, 0.8), known)
    assert second.testset
    assert not tuned & {row.group for row in rows if f"{row.trace_id} later" in second.testset}
    assert {place.task for place in places_of(first, Dataset(rows))} == {""}


def test_a_task_that_was_tuned_on_is_never_held_out() -> None:
    dataset = Dataset(simulate(60, 4))
    splits = [stable_split(dataset, seed, FRACTIONS) for seed in range(6)]
    known = parts_by_key(place for split in splits for place in places_of(split, dataset))
    tuned = {trace_id for split in splits for trace_id in (*split.trainset, *split.valset)}
    assert not tuned & set(stable_split(dataset, 9, FRACTIONS, known).testset)
