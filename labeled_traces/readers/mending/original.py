"""What a converted file keeps of its rows beside what its format has a place for.

Formats have no place for some of a row: ids that are not hex, unknown times, groups, labels in OTLP ... A writer reads
back what it wrote; whatever comes back otherwise stands, as it was, in the attribute ORIGINAL of the span that it
belongs to (of the first span: what belongs to the whole row). It is packed, so that nobody takes it for words of the
run. `restore` puts it back; labels that were added, changed or removed since then stay so.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_record import error_from, filled, score_from, span_from
from labeled_traces.label import ErrorLabel, ScoreLabel
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, Span, Trace, TraceError

ORIGINAL = "gpa_judges.original"
DAMAGED = "what convert kept beside a trace cannot be read, left out"
_ROW = "row"
_SPAN = "span"
_LARGEST = 200_000_000
"""Bytes of one unpacked attribute: a file from elsewhere may hold anything."""
_WHOLE = ("group", "reference", "metadata")
"""Fields of a row that come back as they were, whatever the reader makes of the file."""


def restore(rows: Iterator[tuple[str, LabeledTrace]], report: ReadReport) -> Iterator[tuple[str, LabeledTrace]]:
    """The (place, row) pairs of a reader, rows of converted files as they were before."""
    for where, row in rows:
        if not any(ORIGINAL in span.attributes for span in row.trace.spans):
            yield where, row
            continue
        packed = {span.span_id: span.attributes.get(ORIGINAL) for span in row.trace.spans}
        plain = replace(row, trace=replace(row.trace, spans=tuple(map(without_original, row.trace.spans))))
        try:
            kept = {span_id: _unpack(text) for span_id, text in packed.items() if text is not None}
            yield where, _restored(plain, kept)
        except (TraceError, ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
            report.add(DAMAGED, f"{where}, trace {row.trace_id}: {error}")
            yield where, plain


def differences(row: LabeledTrace, read: LabeledTrace, ids: Mapping[str, str]) -> dict[str, str]:
    """Written span id -> what `restore` needs to turn `read` into `row`, packed; empty where it is the same.

    Args:
        read: the row as a reader reads it out of the file.
        ids: id of a span of `row` -> its id in the file.
    """
    back = {written: span_id for span_id, written in ids.items()}
    kept: dict[str, dict[str, JSON]] = {}
    for span in row.trace.spans:
        other = read.trace.by_id.get(ids[span.span_id])
        if other is not None and (changed := _changed(span, other, back)):
            kept[ids[span.span_id]] = {_SPAN: changed}
    if about := _about_row(row, read, ids):
        kept.setdefault(ids[row.trace.spans[0].span_id], {})[_ROW] = about
    return {span_id: _pack(value) for span_id, value in kept.items()}


def without_original(span: Span) -> Span:
    """The span as it is where nothing is kept beside it."""
    if ORIGINAL not in span.attributes:
        return span
    return replace(span, attributes={key: value for key, value in span.attributes.items() if key != ORIGINAL})


def _changed(span: Span, read: Span, back: Mapping[str, str]) -> dict[str, JSON]:
    parent = None if read.parent_id is None else back.get(read.parent_id, read.parent_id)
    now = replace(without_original(read), span_id=read.span_id, parent_id=parent)
    return {
        one.name: str(span.kind) if one.name == "kind" else value
        for one in fields(Span)
        if not _same(value := getattr(span, one.name), getattr(now, one.name))
    }


def _about_row(row: LabeledTrace, read: LabeledTrace, ids: Mapping[str, str]) -> dict[str, JSON]:
    about: dict[str, JSON] = {
        name: getattr(row, name) for name in _WHOLE if not _same(getattr(row, name), getattr(read, name))
    }
    if row.trace_id != read.trace_id:
        about["trace_id"] = row.trace_id
    if row.trace.metadata != read.trace.metadata:
        about["trace_metadata"] = dict(row.trace.metadata)
    if (order := [ids[span.span_id] for span in row.trace.spans]) != [span.span_id for span in read.trace.spans]:
        about["order"] = order
    for name in ("clean", "raters"):  # people may have looked since then
        if getattr(row, name) != getattr(read, name):
            about[name] = [getattr(read, name), getattr(row, name)]
    back = {written: span_id for span_id, written in ids.items()}
    for name in ("errors", "scores"):
        read_as = [_label(_renamed(label, back)) for label in getattr(read, name)]
        if pairs := list(_pairs([_label(label) for label in getattr(row, name)], read_as)):
            about[name] = pairs
    return about


def _pairs(labels: list[JSON], read: list[JSON]) -> Iterator[tuple[JSON, JSON]]:
    """(as it is read, as it was) of the labels that are read otherwise; None where there is none."""
    for label in list(labels):
        if (same := next((other for other in read if _same(other, label)), None)) is not None:
            read.remove(same)
            labels.remove(label)
    for label in labels:
        alike = ("span_id", "description", "dimension", "rater")
        near = next((other for other in read if all(other.get(key) == label.get(key) for key in alike)), None)
        if near is not None:
            read.remove(near)
        yield near, label
    yield from ((other, None) for other in read)


def _restored(row: LabeledTrace, kept: Mapping[str, Mapping[str, JSON]]) -> LabeledTrace:
    parts = {span_id: value.get(_SPAN) or {} for span_id, value in kept.items()}
    about: Mapping[str, JSON] = next((value[_ROW] for value in kept.values() if _ROW in value), {})
    back = {span.span_id: parts.get(span.span_id, {}).get("span_id", span.span_id) for span in row.trace.spans}
    place = {span_id: number for number, span_id in enumerate(about.get("order") or ())}
    ordered = sorted(row.trace.spans, key=lambda span: place.get(span.span_id, len(place)))
    spans = []
    for span in ordered:
        parent = None if span.parent_id is None else back[span.parent_id]
        record = filled(replace(span, span_id=back[span.span_id], parent_id=parent), kind=str(span.kind))
        spans.append(span_from({**record, **parts.get(span.span_id, {})}, f"span {span.span_id}"))
    metadata = about.get("trace_metadata", row.trace.metadata)
    labels = {name: [_renamed(label, back) for label in getattr(row, name)] for name in ("errors", "scores")}
    return LabeledTrace(
        trace=Trace(about.get("trace_id", row.trace_id), tuple(spans), metadata),
        errors=tuple(error_from(one, "label") for one in _patched(labels["errors"], about.get("errors", ()))),
        scores=tuple(score_from(one, "score") for one in _patched(labels["scores"], about.get("scores", ()))),
        clean=_unless_changed(row.clean, about.get("clean")),
        raters=tuple(_unless_changed(list(row.raters), about.get("raters"))),
        **{name: about.get(name, getattr(row, name)) for name in _WHOLE},
    )


def _patched(labels: Sequence[ErrorLabel | ScoreLabel], pairs: Sequence[tuple[JSON, JSON]]) -> list[JSON]:
    records = [_label(label) for label in labels]
    for read, original in pairs:
        if read is not None and read not in records:
            continue  # somebody has changed or removed it
        if read is not None:
            records.remove(read)
        if original is not None:
            records.append(original)
    return records


def _unless_changed(value: JSON, pair: Sequence[JSON] | None) -> JSON:
    return pair[1] if pair is not None and pair[0] == value else value


def _label(label: ErrorLabel | ScoreLabel) -> dict[str, JSON]:
    if isinstance(label, ErrorLabel):
        return filled(label, dimensions=list(label.dimensions), impact=str(label.impact))
    return filled(label)


def _renamed(label: ErrorLabel | ScoreLabel, ids: Mapping[str, str]) -> ErrorLabel | ScoreLabel:
    if isinstance(label, ErrorLabel) and label.span_id is not None:
        return replace(label, span_id=ids.get(label.span_id, label.span_id))
    return label


def _same(value: JSON, other: JSON) -> bool:
    """Whether two values are written the same: 1, 1.0 and true are not, nor are keys in another order."""
    return value is other or _text(value) == _text(other)


def _text(value: JSON) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value)


def _pack(value: JSON) -> str:
    return base64.b64encode(zlib.compress(json.dumps(value).encode())).decode()


def _unpack(text: str) -> dict[str, JSON]:
    unpacking = zlib.decompressobj()
    value = json.loads(unpacking.decompress(base64.b64decode(text, validate=True), _LARGEST))
    if not isinstance(value, dict):
        raise ValueError(f"it is {type(value).__name__}: accepted is what convert wrote")
    return value
