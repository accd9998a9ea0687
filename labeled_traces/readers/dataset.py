"""Our own JSON Lines, as `Dataset.save` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from labeled_traces.dataset import LabeledTrace, from_json
from labeled_traces.readers.files.records import read_each, read_files
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.trace import JSON, TraceError


def role(record: JSON) -> str | None:
    """`traces` if the record is one of ours, else None."""
    if not isinstance(record, dict) or not isinstance(record.get("trace"), dict):
        return None
    return "traces" if "spans" in record["trace"] and "labels" not in record else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs.

    Raises:
        TraceError: labels, which this format does not take. Records that cannot be read are left out.
    """
    if options.labels:
        raise TraceError(
            f"{options.labels[0]}: no table of labels, and rows of this format hold theirs: accepted are CSV, Parquet "
            "and JSON rows with a trace_id and a category, dimensions or a score (under other names: --columns; of a "
            "data frame in JSON: orient='records')"
        )

    def row(record: JSON, where: str) -> LabeledTrace:
        return from_json(mend_value(record, where, options, _ABOVE_VALUES), where)

    yield from read_each(read_files(paths, options.report), row, options.report)


_ABOVE_VALUES = -8  # a row's own levels do not count as nesting of what it holds
