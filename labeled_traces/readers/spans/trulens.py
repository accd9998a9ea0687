"""What TruLens (`ai.observability.*`) says of a span."""

from __future__ import annotations

from labeled_traces.json_values import decoded, first, get
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, SpanKind

SCOPE = ("ai", "observability")
_GROUND_TRUTH = ("record_root", "ground_truth_output")
_KINDS = {
    **dict.fromkeys(("record_root", "agent", "agent_invocation"), SpanKind.AGENT),
    **dict.fromkeys(("tool", "tool_invocation", "mcp"), SpanKind.TOOL),
    **dict.fromkeys(("graph_node", "graph_task", "workflow_step"), SpanKind.CHAIN),
    **dict.fromkeys(("eval", "eval_root"), SpanKind.EVALUATOR),
    "generation": SpanKind.LLM,
    "retrieval": SpanKind.RETRIEVER,
    "reranking": SpanKind.RERANKER,
    "embedding": SpanKind.EMBEDDING,
}


def trulens_kind(attributes: JSON) -> SpanKind:
    """The kind that the type of a span says. `attributes` are nested."""
    return _KINDS.get(str(get(attributes, *SCOPE, "span_type")), SpanKind.UNKNOWN)


def trulens_contents(attributes: JSON, report: ReadReport) -> tuple[JSON, JSON]:
    """Inputs and outputs: of a function its arguments by name and its result, of the whole run its goal and answer."""
    own = get(attributes, *SCOPE)
    if own is None:
        return None, None
    root, search, call = get(own, "record_root"), get(own, "retrieval"), get(own, "call")
    report.strip(".".join((*SCOPE, *_GROUND_TRUTH)), 1 if get(own, *_GROUND_TRUTH) else 0)
    graph = get(own, "graph_node") or get(own, "graph_task")
    tool = get(own, "mcp")
    asked = first(get(root, "input"), get(tool, "input_arguments"), get(call, "kwargs"), get(search, "query_text"))
    given = first(get(root, "output"), get(tool, "output_content"), get(call, "return"))
    return (
        decoded(first(asked, get(graph, "input_state"))),
        decoded(first(given, get(search, "retrieved_contexts"), get(graph, "output_state"))),
    )


def trulens_error(attributes: JSON) -> JSON:
    """What went wrong, where TruLens says it in an attribute."""
    own = get(attributes, *SCOPE)
    if own is None:
        return None
    places = (("record_root",), ("call",), ("graph_node",), ("graph_task",))
    return first(*(get(own, *place, "error") for place in places))
