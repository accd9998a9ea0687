"""What is said of a file that no reader reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from labeled_traces.readers.files.parquet import is_parquet
from labeled_traces.readers.files.tables import TEXTS, table_rows
from labeled_traces.readers.labels.table_columns import recognised
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, TraceError

_ATIF = {"schema_version", "steps"}
_LABELS = "it seems to be a table of labels: accepted is --labels {}, beside the traces that it is about"
_MOST_NAMES = 30
_LONGEST_NAME = 40


def check_no_csv(path: Path) -> None:
    """Raises: TraceError, if the file is a table that holds no traces."""
    if path.suffix.lower() not in TEXTS:
        return
    accepted = "accepted as traces are JSON, JSON Lines and Parquet files"
    try:
        row = next((row for _, row in table_rows(path, ReadReport())), {})
    except TraceError:
        row = {}
    labels = _LABELS.format(path) if recognised(row) else f"{accepted}; a table of labels goes to --labels"
    raise TraceError(f"{path}: a table of texts, no traces: {labels}")


def unknown_format(path: Path, record: JSON, known: Mapping[str, str]) -> TraceError:
    """`known`: format -> what its records look like."""
    start = f"{path}: no known format in its first record"
    if not isinstance(record, dict):
        start = f"{start} (a {type(record).__name__})"
    elif record.keys() >= _ATIF:
        start = f"{start}, it seems to be an ATIF trajectory; export it as OpenTelemetry spans instead"
    elif is_parquet(path):
        start = f"{start} (columns: {_names(record)})"
    else:
        start = f"{start} (keys: {_names(sorted(record))})"
    if isinstance(record, dict) and recognised(record):
        return TraceError(f"{start}: {_LABELS.format(path)}")
    return TraceError(f"{start}: accepted are {'; '.join(f'{name}: {form}' for name, form in known.items())}")


def _names(given: Iterable[str]) -> str:
    names = [name[:_LONGEST_NAME] for name in given]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"
