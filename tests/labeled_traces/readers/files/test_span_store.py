from __future__ import annotations

import json
from pathlib import Path

import pytest

from labeled_traces.readers import read
from labeled_traces.readers.files import span_store
from labeled_traces.readers.files.span_store import SpanStore


@pytest.mark.parametrize("largest", [1, 1_000, 10_000_000])
def test_what_was_put_is_given_back_in_any_order(largest: int) -> None:
    store = SpanStore(largest)
    given = [(f"line {n}", {"a": ["x" * n, None, 1.5, {"–": True}]}) for n in range(60)]
    places = [store.put(*one) for one in given]
    assert list(store.get(places[1::2] + places[::2])) == given[1::2] + given[::2]


def test_mixed_spans_on_disk_are_the_traces_that_they_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = [
        {
            "context": {"trace_id": f"{n % 7:032x}", "span_id": f"{n + 1:016x}"},
            "attributes": {"input.value": f"say {n}"},
        }
        for n in range(70)
    ]
    (tmp_path / "spans.jsonl").write_text("".join(json.dumps(span) + "\n" for span in spans))
    whole, said = read(tmp_path)
    monkeypatch.setattr(SpanStore.__init__, "__defaults__", (100,))
    spilled, also = read(tmp_path)
    assert len(whole) == 7
    assert list(spilled) == list(whole)
    assert also == said
    assert span_store.LARGEST > 100
