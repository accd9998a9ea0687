"""Rows of Parquet files as JSON, one at a time.

A struct has all the fields that any row has, with nulls where a row has none: in a row they are left out. Bytes are
text, but of a fixed length hex digits (an id). NaN is null, as a data frame says that nothing is there. Times are ISO
8601 texts, durations seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeled_traces.json_values import decoded
from labeled_traces.trace import JSON, TraceError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

SUFFIX = ".parquet"
_MAGIC = b"PAR1"
_BATCH = 8_000_000
"""Bytes of the rows that are in memory at once, beside a page of the file, which its writer made as large as it is."""
_MOST_ROWS = 1_000
_HOW: dict[str, Any] = {"pre_buffer": False, "buffer_size": 1_000_000, "page_checksum_verification": True}
_Read = Callable[[Any], JSON]


def is_parquet(path: Path) -> bool:
    """By its name, or by its first bytes: caches of data sets keep files without their names."""
    if path.suffix.lower() == SUFFIX or not path.is_file():
        return path.suffix.lower() == SUFFIX
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def parquet_records(path: Path, leave_out: Callable[[TraceError], None]) -> Iterator[tuple[str, JSON]]:
    """(place, record) pairs for readers of traces: cells with the text of a JSON object or array are that value. A
    table with one column of such objects holds nothing else: each is a record.

    Args:
        leave_out: as of `parquet_rows`.

    Raises:
        TraceError: see `parquet_rows`.
    """
    for where, row in parquet_rows(path, leave_out):
        # A dotted column is an attribute of a span, whose reader knows whether its text is JSON.
        record = {name: value if "." in name else decoded(value) for name, value in row.items()}
        first = next(iter(record.values()), None)
        yield where, first if len(record) == 1 and isinstance(first, dict) else record


def parquet_rows(path: Path, leave_out: Callable[[TraceError], None]) -> Iterator[tuple[str, dict[str, JSON]]]:
    """(place, cells by column) of each row, from row 1.

    Args:
        leave_out: gets the error of a row that holds what is no JSON; the others are read on.

    Raises:
        TraceError: no Parquet file, or a damaged one; what stands before the damage has been given.
    """
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path, **_HOW) as file:
            columns = [(field.name, _reader(field.type)) for field in file.schema_arrow]
            names = [name for name, _ in columns]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise TraceError(f"{path}: two columns are called {twice!r}: accepted is each name once")
            for batch in _batches(file):
                for at in range(batch.num_rows):
                    number += 1
                    where = f"{path}, row {number}"
                    try:
                        row = _row(batch, at, columns, where)
                    except TraceError as error:
                        leave_out(error)
                        continue
                    yield where, row
            if number != file.metadata.num_rows:
                raise OSError(f"it has {number:,} rows and says that they are {file.metadata.num_rows:,}")
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0].rstrip(". ")
        read = f", {number:,} rows before it were read" if number else ""
        raise TraceError(
            f"{path}: cannot be read as Parquet ({reason}){read}: accepted is a Parquet file that is whole"
        ) from None


def _batches(file: ParquetFile) -> Iterator[pyarrow.RecordBatch]:
    """Each group of rows by itself, so that damage in one takes none of those before it."""
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        rows = _BATCH * group.num_rows // max(group.total_byte_size, 1)
        yield from file.iter_batches(batch_size=max(1, min(_MOST_ROWS, rows)), row_groups=[number])


def _row(batch: pyarrow.RecordBatch, at: int, columns: list[tuple[str, _Read]], where: str) -> dict[str, JSON]:
    row: dict[str, JSON] = {}
    for (name, read), column in zip(columns, batch.columns, strict=True):
        try:
            value = column[at].as_py()
            row[name] = None if value is None else read(value)
        except (ValueError, OverflowError) as error:  # bytes that are no text, a time beyond the year 9999
            raise TraceError(f"{where}, column {name!r}: {error}: accepted are values that JSON has") from None
    return row


def _reader(kind: pyarrow.DataType) -> _Read:
    """How values of a type, none of them null, become JSON."""
    import pyarrow

    types = pyarrow.types
    if isinstance(kind, pyarrow.BaseExtensionType):
        return lambda value: value if isinstance(value, bool | int | float | str) else str(value)
    if types.is_struct(kind):
        fields = {field.name: _reader(field.type) for field in kind}
        return lambda value: {name: fields[name](part) for name, part in value.items() if part is not None}
    if types.is_map(kind):
        key, item = _reader(kind.key_type), _reader(kind.item_type)
        return lambda value: {str(key(name)): None if part is None else item(part) for name, part in value}
    if hasattr(kind, "value_type"):
        inner = _reader(kind.value_type)
        if types.is_dictionary(kind):
            return inner
        return lambda value: [None if part is None else inner(part) for part in value]
    if types.is_fixed_size_binary(kind):
        return bytes.hex
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return bytes.decode
    if types.is_floating(kind):
        return lambda value: None if math.isnan(value) else float(value)
    if types.is_decimal(kind):
        return lambda value: int(value) if value == value.to_integral_value() else float(value)
    if types.is_duration(kind):
        return lambda value: value.total_seconds()
    if types.is_temporal(kind):
        return lambda value: value.isoformat()
    return lambda value: value
