from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.near_duplicates import near_duplicates
from labeled_traces.readers import read
from labeled_traces.simulated import simulate
from labeled_traces.split import LeakageError, make_split, manifest_of
from labeled_traces.trace import JSON, Span, SpanKind, Trace


def changed(trace: Trace, text: Callable[[str], str]) -> tuple[Span, ...]:
    """The spans with all texts changed."""

    def walk(value: JSON) -> JSON:
        if isinstance(value, dict):
            return {key: walk(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner) for inner in value]
        return text(value) if isinstance(value, str) else value

    return tuple(replace(span, inputs=walk(span.inputs), outputs=walk(span.outputs)) for span in trace.spans)


def few_words(trace: Trace, share: float = 0.04, seed: int = 0) -> tuple[Span, ...]:
    draw = random.Random(f"{trace.trace_id} {seed}")
    return changed(trace, lambda text: " ".join(w if draw.random() > share else "something" for w in text.split(" ")))


def other_ids(trace: Trace) -> tuple[Span, ...]:
    return tuple(
        replace(span, span_id=f"x-{span.span_id}", parent_id=span.parent_id and f"x-{span.parent_id}", start=None)
        for span in trace.spans
    )


def reordered(value: JSON) -> JSON:
    """Keys in the other order at all levels, values that are JSON as its text."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


DISGUISES: dict[str, Callable[[Trace], tuple[Span, ...]]] = {
    "other ids": other_ids,
    "white space": lambda trace: changed(trace, lambda text: f" {text.replace(' ', chr(10) + '  ')}\n"),
    "one more key": lambda trace: tuple(
        replace(span, inputs={"v": 7, "in": span.inputs}, outputs={"out": span.outputs, "model": "m-9"})
        for span in trace.spans
    ),
    "reordered keys": lambda trace: tuple(
        replace(span, inputs=reordered(span.inputs), outputs=reordered(span.outputs)) for span in trace.spans
    ),
    "JSON as text": lambda trace: tuple(
        replace(span, outputs=json.dumps(span.outputs, indent=2)) if span.kind is SpanKind.TOOL else span
        for span in trace.spans
    ),
    "words": few_words,
    "lost end": lambda trace: trace.spans[: (len(trace.spans) * 2 + 2) // 3],
}


@pytest.mark.parametrize("how", DISGUISES)
def test_a_disguised_copy_is_found(how: str) -> None:
    rows = simulate(60, 3)
    copies = [Trace(f"copy of {row.trace_id}", DISGUISES[how](row.trace)) for row in rows[:8]]
    links = near_duplicates([*(row.trace for row in rows), *copies])
    assert {place for link in links for place in (link.first, link.second)} >= set(range(60, 68))
    groups = [row.group for row in [*rows, *rows[:8]]]
    assert all(groups[link.first] == groups[link.second] for link in links)


def test_simulated_tasks_are_no_near_duplicates() -> None:
    """They differ in a word or a number: `the top 2 banks`, `the top 3 banks`."""
    rows = simulate(400, 0)
    links = near_duplicates([row.trace for row in rows])
    assert links
    assert all(rows[link.first].group == rows[link.second].group for link in links)


def test_real_runs(shared_data: Path) -> None:
    """All disguised copies are found, and no two of the runs, which are all of other tasks."""
    rows = list(read([shared_data / "agentrx_tau"], "agentrx")[0])
    traces = [row.trace for row in rows]
    assert near_duplicates(traces) == ()
    copies = [
        Trace(f"copy {place}", how(traces[place]))
        for place, how in enumerate(DISGUISES[name] for name in list(DISGUISES) * 3)
    ]
    links = near_duplicates([*traces, *copies])
    pairs = {tuple(sorted((link.first, link.second))) for link in links}
    assert pairs == {(place, len(traces) + place) for place in range(len(copies))}


def test_many_copies_are_one_group_and_few_traces_are_enough() -> None:
    others = [row.trace for row in simulate(90, 0)]
    copies = [replace(others[0], trace_id=f"t{n}", spans=few_words(others[0], 0.03, n)) for n in range(10)]
    links = near_duplicates([*others, *copies])
    assert sum(max(link.first, link.second) >= 90 for link in links) == 10
    assert len(near_duplicates([others[0], replace(others[0], trace_id="t", spans=other_ids(others[0]))])) == 1
    assert near_duplicates(others[:1]) == near_duplicates([]) == ()


def test_traces_without_words() -> None:
    values: list[JSON] = [None, "", [], 3]
    empty = [Trace(f"t{n}", (Span("a", None, "agent", outputs=value),)) for n, value in enumerate(values)]
    assert near_duplicates(empty) == ()


def test_thousands_of_traces_and_copies_are_grouped_in_seconds() -> None:
    rows = simulate(1500, 0)
    trace = rows[0].trace
    copies = [Trace(f"t{n}", few_words(trace, seed=n)) for n in range(500)]
    start = time.perf_counter()
    links = near_duplicates([*(row.trace for row in rows), *copies])
    assert time.perf_counter() - start < 15
    assert sum(link.first >= 1500 or link.second >= 1500 for link in links) >= 500


def labeled(trace: Trace, group: str = "") -> LabeledTrace:
    return LabeledTrace(trace, group=group)


def test_a_split_keeps_near_duplicates_together_and_a_forged_one_is_leakage() -> None:
    rows = simulate(12, 0)
    traces = [*(row.trace for row in rows), Trace("copy", few_words(rows[0].trace))]
    data = Dataset(labeled(trace, f"g{n}") for n, trace in enumerate(traces))
    for seed in range(4):
        manifest = make_split(data, seed)
        manifest.check(data)
        assert any({"copy", rows[0].trace_id} <= set(part) for part in manifest.parts.values())
    others = [trace_id for trace_id in data.ids if trace_id not in ("copy", rows[0].trace_id)]
    forged = manifest_of(
        data, 0, (0.4, 0.2, 0.4), [[rows[0].trace_id, *others[:5]], others[5:8], ["copy", *others[8:]]]
    )
    with pytest.raises(LeakageError, match=r"are near-duplicates: \d+% of what .* \(accepted is less than 75%\)"):
        forged.check(data)


def test_a_session_is_kept_together() -> None:
    rows = [replace(labeled(row.trace), metadata={"session": f"s{n // 4}"}) for n, row in enumerate(simulate(24, 0))]
    data = Dataset(rows)
    manifest = make_split(data, 0)
    parts = [{data[trace_id].metadata["session"] for trace_id in part} for part in manifest.parts.values()]
    assert sum(map(len, parts)) == 6
