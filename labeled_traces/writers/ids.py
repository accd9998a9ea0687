"""Ids as OpenTelemetry has them, for traces whose ids are none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

from labeled_traces.trace import Trace, text_hash


@dataclass(frozen=True)
class HexIds:
    """`trace`: 32 hex digits. `spans`: span id -> 16 hex digits, which are the id itself where it is such."""

    trace: str
    spans: Mapping[str, str]

    @classmethod
    def of(cls, trace: Trace, taken: Set[str] = frozenset()) -> HexIds:
        """The same for the same trace, whenever it is written. `taken`: ids of other traces."""
        own = re.fullmatch(r"(?:tr-)?([0-9a-f]{32})", trace.trace_id)
        trace_id = own[1] if own and int(own[1], 16) else text_hash(trace.trace_id)[:32]
        while trace_id in taken:
            trace_id = text_hash(trace_id)[:32]
        spans = {one: one for one in trace.by_id if re.fullmatch("[0-9a-f]{16}", one) and int(one, 16)}
        used = set(spans)
        for span_id in trace.by_id:
            if span_id in spans:
                continue
            new = text_hash(f"{trace.trace_id} {span_id}")[:16]
            while new in used:
                new = text_hash(new)[:16]
            used.add(new)
            spans[span_id] = new
        return cls(trace_id, spans)
