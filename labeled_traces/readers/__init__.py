"""Files of other systems as labelled traces.

To add a format: a module with `role` and `read`, and a line in READERS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.readers import agentrx, mlflow, openinference, rows
from labeled_traces.readers.records import expand, first_record
from labeled_traces.readers.report import ReadOptions, ReadReport
from labeled_traces.taxonomy import Taxonomy, load_taxonomy
from labeled_traces.trace import JSON, TraceError


@dataclass(frozen=True)
class Reader:
    """`role`: `traces`, `labels` or None for a record. `read`: files -> (place, row). `taxonomy`: its usual table."""

    role: Callable[[JSON], str | None]
    read: Callable[[Sequence[Path], ReadOptions], Iterator[tuple[str, LabeledTrace]]]
    taxonomy: str


READERS: dict[str, Reader] = {
    "dataset": Reader(rows.role, rows.read, "trail"),
    "agentrx": Reader(agentrx.role, agentrx.read, "agentrx"),
    "mlflow": Reader(mlflow.role, mlflow.read, "trail"),
    "openinference": Reader(openinference.role, openinference.read, "trail"),
}


Paths: TypeAlias = Path | str | Iterable[Path | str]


def sniff(path: Path) -> str:
    """The format of a file, or of the files in a folder, by their first records.

    Raises:
        TraceError: no known format, or several.
    """
    found: dict[str, Path] = {}
    for file in expand([Path(path)]):
        found.setdefault(_format_and_role(file)[0], file)
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        raise TraceError(f"{first} is {one} and {second} is {other}: accepted is one format at a time")
    return next(iter(found))


def read(
    paths: Paths,
    format: str = "auto",
    labels: Paths | None = None,
    taxonomy: str | Path | Taxonomy | None = None,
) -> tuple[Dataset, ReadReport]:
    """Labelled traces out of files and folders.

    Args:
        paths: traces; label files among them are used as labels.
        format: a name of READERS, or `auto`.
        labels: further label files or folders.
        taxonomy: a table or its name or file; None means the one of the format.

    Raises:
        TraceError: what cannot be read; names file, record and field, and what would be accepted.
    """
    files = _files(paths)
    if not files:
        raise TraceError("no file was given: accepted are files and folders")
    label_files = _files(labels or ())
    known_labels = {file.resolve() for file in label_files}
    trace_files: list[Path] = []
    chosen = None if format == "auto" else format
    for file in files:
        if file.resolve() in known_labels:
            continue
        found, part = _format_and_role(file, None if format == "auto" else format)
        if found != (chosen := chosen or found):
            raise TraceError(f"{file}: is {found}, files before it are {chosen}: accepted is one format at a time")
        (label_files if part == "labels" else trace_files).append(file)
    if chosen is None or not trace_files:
        raise TraceError(f"{files[0]}: holds labels, no traces: traces are needed")
    reader = READERS[chosen]
    table = taxonomy if isinstance(taxonomy, Taxonomy) else load_taxonomy(taxonomy or reader.taxonomy)
    options = ReadOptions(table, labels=tuple(label_files))
    dataset = Dataset.from_places(
        reader.read(trace_files, options), lambda message: options.report.add("trace twice, kept once", message)
    )
    return dataset, options.report


def _files(paths: Paths) -> list[Path]:
    return expand(Path(path) for path in ([paths] if isinstance(paths, Path | str) else paths))


def _format_and_role(path: Path, name: str | None = None) -> tuple[str, str]:
    """(format, `traces` or `labels`) of a file by its first record; a given format is believed for its traces."""
    if name is not None and name not in READERS:
        raise TraceError(f"format {name!r} is unknown: accepted are auto, {', '.join(READERS)}")
    record = first_record(path)
    if record is None:
        raise TraceError(f"{path}: holds no record: accepted is at least one")
    for known in READERS if name is None else [name]:
        part = READERS[known].role(record)
        if part is not None:
            return known, part
    if name is not None:
        return name, "traces"
    raise TraceError(f"{path}: no known format ({', '.join(READERS)}) in its first record: name one with --format")
