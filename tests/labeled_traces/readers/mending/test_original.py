from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import pytest

from labeled_traces.dataset import to_json
from labeled_traces.readers import read
from labeled_traces.readers.mending.original import DAMAGED, ORIGINAL
from labeled_traces.simulated import simulate
from labeled_traces.trace import JSON
from labeled_traces.writers import write


def packed(value: JSON) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


@pytest.mark.parametrize(
    "text",
    [
        "no base64",
        "bm8gemxpYg==",
        packed([1]),
        packed({"span": {"kind": "NO KIND"}}),
        packed({"span": {"parent_id": "nowhere"}}),
        packed({"span": [1]}),
        packed({"row": {"errors": [[None, {"dimensions": ["no dimension"], "impact": "low"}]]}}),
        packed({"row": {"clean": ["unknown", "perhaps"]}}),
        '{"a": 1}',
    ],
)
def test_what_is_damaged_is_told_and_the_trace_is_read_without_it(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(simulate(1, seed=1), "otlp", path)
    record = json.loads(path.read_text(encoding="utf-8"))
    spans = record["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for number, span in enumerate(spans):
        span["attributes"] = [pair for pair in span["attributes"] if pair["key"] != ORIGINAL]
        if number == 0:
            span["attributes"].append({"key": ORIGINAL, "value": {"stringValue": text}})
    path.write_text(json.dumps(record), encoding="utf-8")
    dataset, report = read(path)
    (row,) = dataset
    assert report.counts[DAMAGED] == 1
    assert report.examples[DAMAGED][0].startswith(str(path))
    assert len(row.trace.spans) == len(spans)
    assert ORIGINAL not in json.dumps(to_json(row))
