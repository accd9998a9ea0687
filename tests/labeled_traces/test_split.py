from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import DIMENSIONS, ErrorLabel, Impact
from labeled_traces.split import LeakageError, SplitManifest, make_split
from labeled_traces.trace import JSON, Span, SpanKind, Trace, TraceError


def row(trace_id: str, text: str = "", **fields: JSON) -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", SpanKind.AGENT, inputs=text or trace_id),)), **fields)


def error(dimension: str = "plan_quality", impact: Impact = Impact.LOW) -> ErrorLabel:
    return ErrorLabel("a", (dimension,), "x", impact)


def mixed(count: int, seed: int, per_task: int = 1) -> Dataset:
    """Traces as they come in life: some dimensions rare, 40 % clean."""
    rng = random.Random(seed)
    weights = [2, 30, 10, 4, 12, 6, 20]
    rows = []
    for i in range(count):
        count_of_errors = 0 if rng.random() < 0.4 else rng.randint(1, 4)
        errors = tuple(
            error(rng.choices(list(DIMENSIONS), weights)[0], Impact(rng.randint(1, 3))) for _ in range(count_of_errors)
        )
        rows.append(row(f"t{i:04}", group=f"task{i // per_task}", errors=errors))
    return Dataset(rows)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 15), st.integers(0, 3)), min_size=3, max_size=40),
    st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_no_group_and_no_content_in_two_parts(traces: list[tuple[int, int, int]], seed: int) -> None:
    data = Dataset(
        row(f"t{i}", f"text {text}", group=f"g{group}" if group else "", errors=(error(),) * errors)
        for i, (group, text, errors) in enumerate(traces)
    )
    graph: list[set[tuple[str, str]]] = []  # connected traces, by the slow way
    for r in data:
        keys = {("content", r.trace.content_hash), ("group", r.group or r.trace_id)}
        touching = [component for component in graph if component & keys]
        graph = [component for component in graph if component not in touching] + [keys.union(*touching)]
    if len(graph) < 3:
        with pytest.raises(TraceError, match=rf"{len(data)} traces in {len(graph)} groups .* needs at least 3 groups"):
            make_split(data, seed)
        return
    manifest = make_split(data, seed)
    parts = list(manifest.parts.values())
    assert all(parts)
    assert sorted(trace_id for part in parts for trace_id in part) == sorted(data.ids)
    for key in ("group", "content"):
        seen: list[set[str]] = []
        for part in parts:
            rows = [data[trace_id] for trace_id in part]
            seen.append({r.group for r in rows if r.group} if key == "group" else {r.trace.content_hash for r in rows})
        assert len(seen[0] | seen[1] | seen[2]) == len(seen[0]) + len(seen[1]) + len(seen[2])
    manifest.check(data)


@pytest.mark.parametrize("per_task", [1, 3])
def test_every_stratum_gets_its_share(per_task: int) -> None:
    data = mixed(240, 0, per_task)
    manifest = make_split(data, 0)
    for stratum in {name for counts in manifest.counts.values() for name in counts}:
        counts = [manifest.counts[part].get(stratum, 0) for part in manifest.parts]
        for count, fraction in zip(counts, manifest.fractions, strict=True):
            assert abs(count - fraction * sum(counts)) <= max(3.0, 0.15 * sum(counts)), (stratum, counts)
    sizes = [len(part) for part in manifest.parts.values()]
    assert sizes == pytest.approx([84, 60, 96], abs=5)


def test_stratified_is_nearer_to_the_shares_than_chance() -> None:
    data = mixed(120, 1)
    labels = {name: 0.0 for name in ("ours", "chance")}
    total = sum(len(r.errors) for r in data)
    for seed in range(10):
        ours = make_split(data, seed).testset
        chance = random.Random(seed).sample(data.ids, len(ours))
        for name, ids in (("ours", ours), ("chance", tuple(chance))):
            for dimension in DIMENSIONS:
                have = sum(len(data[i].errors_of(dimension)) for i in ids)
                labels[name] += abs(have - 0.4 * sum(len(r.errors_of(dimension)) for r in data)) / total
    assert labels["ours"] < 0.5 * labels["chance"]


def test_seeds_repeat_and_differ_and_row_order_does_not_matter() -> None:
    data = mixed(60, 2)
    again = Dataset(reversed(list(data)))
    assert make_split(data, 7) == make_split(again, 7)
    assert len({make_split(data, seed).testset for seed in range(5)}) == 5
    assert make_split(data, 0, (0.2, 0.2, 0.6)).testset != make_split(data, 0).testset


def test_every_trace_reaches_the_testset_under_some_seed() -> None:
    data = Dataset([*(row(f"t{i}") for i in range(12)), row("rare", errors=(error(),) * 9)])
    assert {trace_id for seed in range(40) for trace_id in make_split(data, seed).testset} == set(data.ids)


def test_too_few_groups_and_bad_fractions_are_clear_errors() -> None:
    data = Dataset(row(f"t{i}", group=f"g{i % 2}") for i in range(10))
    with pytest.raises(TraceError, match=r"10 traces in 2 groups .* needs at least 3 groups"):
        make_split(data, 0)
    three = Dataset([row("a"), row("b"), row("c", errors=(error(),) * 5)])
    assert [len(part) for part in make_split(three, 0).parts.values()] == [1, 1, 1]
    for fractions in [(0.5, 0.5, 0.5), (1.0, 0.0, 0.0), (0.6, 0.6, -0.2), (float("nan"), 0.5, 0.5)]:
        with pytest.raises(TraceError, match="accepted are three positive numbers that add up to 1"):
            make_split(data, 0, fractions)


def test_manifest_round_trip_and_parts(tmp_path: Path) -> None:
    data = mixed(40, 3)
    manifest = make_split(data, 11)
    manifest.save(tmp_path / "split.json")
    loaded = SplitManifest.load(tmp_path / "split.json")
    assert loaded == manifest
    development = loaded.development(data)
    assert development.trainset.ids == manifest.trainset
    assert development.valset.ids == manifest.valset
    assert loaded.testset_of(data).ids == manifest.testset
    content = (tmp_path / "split.json").read_text()
    assert manifest.dataset_hash in content
    assert '"inputs"' not in content


def test_a_changed_manifest_is_detected(tmp_path: Path) -> None:
    data = mixed(40, 4)
    path = tmp_path / "split.json"
    make_split(data, 0).save(path)
    record = json.loads(path.read_text())
    record["trainset"].append(record["testset"].pop())
    path.write_text(json.dumps(record))
    with pytest.raises(TraceError, match=r"split\.json: was changed after it was written"):
        SplitManifest.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", '{"seed": 1, "manifest_hash": "x"}', "{"])
def test_what_is_no_manifest_is_a_clear_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(TraceError, match=r"split\.json: not "):
        SplitManifest.load(tmp_path / "split.json")


def test_a_manifest_with_an_unknown_or_missing_field(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    make_split(mixed(9, 0), 0).save(path)
    record = json.loads(path.read_text())
    for change in ({"extra": 1}, {"seed": None, "trainset": 3}):
        path.write_text(json.dumps({**record, **change}))
        with pytest.raises(TraceError, match="not a split manifest"):
            SplitManifest.load(path)


def test_overlap_of_ids_groups_and_contents_is_leakage() -> None:
    data = Dataset([row("a", "one", group="g"), row("b", "two"), row("c", "three"), row("d", "four")])
    manifest = make_split(data, 0)
    twice = replace(manifest, trainset=(*manifest.trainset, manifest.testset[0]))
    with pytest.raises(LeakageError, match="1 traces are in trainset and in testset, the first is"):
        twice.check(data)
    for changes, key in (({"b": row("b", "two", group="g")}, "group"), ({"b": row("b", "  one ")}, "content")):
        changed = Dataset(changes.get(r.trace_id, r) for r in data)
        hashes = {r.trace_id: r.trace.content_hash for r in changed}
        forged = replace(
            manifest,
            trainset=("a",),
            valset=("c", "d"),
            testset=("b",),
            dataset_hash=changed.hash,
            content_hashes=hashes,
        )
        for use in (forged.check, forged.development, forged.testset_of):
            with pytest.raises(LeakageError, match=f"'b' in testset and 'a' in trainset have the same {key}"):
                use(changed)


def test_changed_data_is_detected() -> None:
    data = mixed(30, 5)
    manifest = make_split(data, 0)
    first = next(iter(data))
    rest = [r for r in data if r is not first]
    with pytest.raises(TraceError, match="the split has 30 traces, the data 29"):
        manifest.check(Dataset(rest))
    with pytest.raises(TraceError, match="trace 't0000' changed since it was split"):
        manifest.check(Dataset([row("t0000", "other", group=first.group), *rest]))
    with pytest.raises(TraceError, match="labels or metadata changed"):
        manifest.check(Dataset([replace(first, errors=(*first.errors, error())), *rest]))
    listed_twice = replace(manifest, testset=(*manifest.testset, manifest.testset[0]))
    with pytest.raises(TraceError, match="listed twice"):
        listed_twice.check(data)
