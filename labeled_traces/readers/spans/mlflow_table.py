"""Rows of the table of traces that MLflow's `search_traces` gives, as `to_parquet` and `to_json` save it."""

from __future__ import annotations

from collections.abc import Mapping

from labeled_traces.json_values import decoded, get
from labeled_traces.trace import JSON

_IDS = {"trace_id", "request_id"}
_ABOUT = {"trace_metadata", "request_metadata"}
"""In MLflow 3 and 2."""


def is_trace(record: JSON) -> bool:
    """Whether it is `{info, data: {spans}}`, as `Trace.to_dict` writes a trace."""
    return isinstance(get(record, "info"), dict) and isinstance(get(record, "data", "spans"), list)


def is_row(record: JSON) -> bool:
    """Whether it is such a row, or one that holds a whole trace as `trace`."""
    if not isinstance(record, dict):
        return False
    if _IDS & record.keys() and _ABOUT & record.keys() and isinstance(decoded(record.get("spans")), list):
        return True
    return is_trace(decoded(record.get("trace")))


def trace_of(record: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """A row as the trace that it is; anything else as it stands."""
    if not is_row(record):
        return record
    whole = decoded(record.get("trace"))
    if isinstance(whole, dict) and is_trace(whole):
        return whole
    info = {name: decoded(value) for name, value in record.items() if name not in ("trace", "spans")}
    return {"info": info, "data": {"spans": decoded(record["spans"])}}
