"""The recorder: stable ids, a clock that never runs backwards."""

from __future__ import annotations

import random
import re

from labeled_traces.simulated.recorder import Recorder, message
from labeled_traces.simulated.tools import ToolResult
from labeled_traces.trace import SpanKind, Trace


def record(seed: int, number: int) -> Trace:
    recorder = Recorder(seed, number, random.Random(0))
    root = recorder.begin(SpanKind.AGENT, "data_agent", None, "task")
    step = recorder.llm("executor", root, "rules", "do it", [{"name": "t"}])
    recorder.tool(step, "t", {"a": 1}, ToolResult(None, "the schema rejects it"))
    recorder.tool(step, "t", {"a": 2}, ToolResult({"value": 3}))
    recorder.end(step, {"messages": [message("assistant", "done", ("t", {"a": 2}))]})
    recorder.end(root, "answer")
    return recorder.trace()


def test_spans_stand_in_the_order_in_which_they_began() -> None:
    root, step, rejected, accepted = record(7, 12).spans
    assert record(7, 12).trace_id == "sim-7-0012"
    assert (step.parent_id, rejected.parent_id, accepted.parent_id) == (root.span_id, step.span_id, step.span_id)
    assert (rejected.status, rejected.outputs, rejected.error) == ("ERROR", None, "the schema rejects it")
    assert (accepted.status, accepted.outputs, accepted.error) == ("OK", {"value": 3}, None)
    assert step.inputs == {
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "do it"}],
        "tools": [{"name": "t"}],
    }
    said = {"role": "assistant", "content": "done", "tool_calls": [{"name": "t", "arguments": {"a": 2}}]}
    assert step.outputs == {"messages": [said]}


def test_ids_depend_on_seed_number_and_position_alone() -> None:
    ids = [span.span_id for span in record(7, 12).spans]
    assert all(re.fullmatch("[0-9a-f]{16}", span_id) for span_id in ids)
    assert ids == [span.span_id for span in record(7, 12).spans]
    other = [span.span_id for trace in (record(7, 13), record(8, 12)) for span in trace.spans]
    assert len({*ids, *other}) == 12


def test_a_span_encloses_its_children_in_time() -> None:
    trace = record(1, 0)
    for span in trace.spans:
        assert span.start is not None
        assert span.end is not None
        assert span.start < span.end
        if span.parent_id:
            parent = trace.by_id[span.parent_id]
            assert parent.start is not None
            assert parent.end is not None
            assert parent.start < span.start < span.end < parent.end
