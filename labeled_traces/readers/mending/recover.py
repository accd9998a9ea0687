"""What a trace knows elsewhere than where a judge looks for it: goals and answers of agents, arguments and results of
tools, schemas of tools that are known by name. What is put in its place is counted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from labeled_traces.json_values import NOTHING, decoded, get
from labeled_traces.readers.mending.requests import calls_in, messages_in, model_calls, reply_text, request_text
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, Span, SpanKind, Trace

GOAL = "agent that recorded no goal, taken from its first request to a model"
ANSWER = "agent that recorded no answer, taken from the last reply of its model"
ARGUMENTS = "tool that recorded no arguments by name, taken from the call"
RESULT = "tool that recorded no result, taken from what the model was told"


def recovered(trace: Trace, where: str, report: ReadReport) -> Trace:
    """The trace with what it knows in the places where a judge looks for it."""
    known = _Known.of(trace)

    def told(span: Span, kind: str) -> None:
        report.add(kind, f"{where}, span {span.span_id}")

    spans = []
    for given in trace.spans:
        span = given
        if span.kind is SpanKind.TOOL:
            span = replace(span, inputs=known.arguments(trace, span), outputs=known.result(span))
            told(span, ARGUMENTS) if span.inputs is not given.inputs else None
            told(span, RESULT) if span.outputs is not given.outputs else None
        elif span.kind is SpanKind.LLM and isinstance(tools := get(span.inputs, "tools"), list):
            span = replace(span, inputs={**span.inputs, "tools": [known.schema(tool) for tool in tools]})
        elif span.kind is SpanKind.AGENT:
            span = _agent(trace, span, known)
            told(span, GOAL) if given.inputs in NOTHING and span.inputs not in NOTHING else None
            told(span, ANSWER) if given.outputs in NOTHING and span.outputs not in NOTHING else None
        spans.append(span)
    return replace(trace, spans=tuple(spans))


@dataclass
class _Known:
    """Calls by id, what came of them, and tools by name."""

    calls: dict[str, JSON] = field(default_factory=dict)
    results: dict[str, JSON] = field(default_factory=dict)
    tools: dict[str, JSON] = field(default_factory=dict)

    @classmethod
    def of(cls, trace: Trace) -> _Known:
        known = cls()
        for span in trace.spans:
            if span.kind is SpanKind.TOOL:
                about = {
                    "name": span.name,
                    "description": span.attributes.get("tool.description"),
                    "parameters": decoded(span.attributes.get("tool.parameters")),
                }
                schema = {key: value for key, value in about.items() if value is not None}
                if len(schema) > len(known.tools.get(span.name, ())):
                    known.tools[span.name] = schema
            if span.kind is SpanKind.LLM:
                for message in (*messages_in(span.inputs), *messages_in(span.outputs)):
                    known.calls.update({str(call["id"]): call for call in calls_in(message) if call.get("id")})
                    if message.get("role") == "tool" and message.get("tool_call_id"):
                        known.results[str(message["tool_call_id"])] = message.get("content")
        return known

    def arguments(self, trace: Trace, span: Span) -> JSON:
        """A tool's arguments by name: its own, else those of the call by its id, or by the step around it."""
        if isinstance(span.inputs, dict):
            return span.inputs
        above = trace.by_id[span.parent_id].inputs if span.parent_id is not None else None
        around = [call for message in messages_in(above) for call in calls_in(message)]
        call = self.calls.get(str(span.attributes.get("tool_call.id")))
        if call is None and [one.get("name") for one in around] == [span.name]:
            call = around[0]
        found = decoded(get(call, "arguments"))
        return found if isinstance(found, dict) else span.inputs

    def result(self, span: Span) -> JSON:
        if span.outputs not in NOTHING or span.error:
            return span.outputs
        return decoded(self.results.get(str(span.attributes.get("tool_call.id")), span.outputs))

    def schema(self, tool: JSON) -> JSON:
        """A tool that is given by its name alone with what its own spans say of it."""
        return self.tools.get(tool, tool) if isinstance(tool, str) else tool


def _agent(trace: Trace, agent: Span, known: _Known) -> Span:
    calls = model_calls(agent, trace.children)
    inputs, outputs = agent.inputs, agent.outputs
    if inputs in NOTHING:
        inputs = next((goal for call in calls if (goal := request_text(call.inputs))), inputs)
    elif calls and _is_said(inputs, calls[:1]):
        inputs = request_text(inputs) or inputs
    if outputs in NOTHING and agent.status != "ERROR" and calls:
        outputs = reply_text(calls[-1].outputs) or outputs
    elif calls and _is_said(outputs, calls):
        outputs = reply_text(outputs) or outputs
    return replace(agent, inputs=_with_role(agent, inputs, known, alone=not calls), outputs=outputs)


def _with_role(agent: Span, goal: JSON, known: _Known, alone: bool) -> JSON:
    """The goal; beside it what the agent is, and, where no call of a model shows them, the tools that it has."""
    kept = agent.attributes.get("smolagents")
    lists = (get(kept, "tools_names"), get(kept, "managed_agents"))
    tools = [known.schema(tool) for tools in lists if isinstance(tools, list) for tool in tools]
    role = agent.attributes.get("agent.description")
    about = {**({"tools": tools} if alone and tools else {}), **({"description": role} if role else {})}
    if not about or (isinstance(goal, dict) and "messages" not in goal):
        return {**about, **goal} if about else goal
    messages = goal["messages"] if isinstance(goal, dict) else [{"role": "user", "content": goal}]
    return {"messages": messages if goal not in NOTHING else [], **about}


def _is_said(value: JSON, calls: list[Span]) -> bool:
    """Whether a value is a conversation of which the calls of a model show all."""
    if not isinstance(value, dict) or not value.keys() <= {"messages", "tools"}:
        return False
    shown = [message for call in calls for side in (call.inputs, call.outputs) for message in messages_in(side)]
    tools = [get(call.inputs, "tools") for call in calls]
    return (
        bool(messages_in(value))
        and all(message in shown for message in messages_in(value))
        and ("tools" not in value or value["tools"] in tools)
    )
