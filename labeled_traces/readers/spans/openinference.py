"""OpenInference attributes, flat (`llm.input_messages.0.message.role`) or nested, as a span's inputs and outputs."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping

from labeled_traces.json_values import decoded, first, get, listed, loads_or_none, rows_of
from labeled_traces.readers.mending.original import ORIGINAL
from labeled_traces.readers.report import ReadReport
from labeled_traces.trace import JSON, SpanKind

# What a Trace keeps beside inputs and outputs. Everything else is bulk, or could hold the answer.
_KEPT = (
    *("llm.provider", "llm.invocation_parameters", "tool.parameters", "smolagents"),
    ORIGINAL,
)
_KEPT_AT = {key: key.split(".") for key in _KEPT}
# Values that are somebody's data: their keys are not attribute names, whatever they look like.
_DATA = ("value", "content", "arguments", "json_schema", "parameters", "invocation_parameters", "metadata")


class _Node(dict[str, JSON]):
    """A mapping that came out of dotted keys; a plain dict is somebody's data."""


def nest(record: Mapping[str, JSON], depth: int = 0) -> dict[str, JSON]:
    """Dotted keys as nested mappings; where all keys of a mapping are numbers it becomes a list, in their order.

    A key that is a value and a prefix of others keeps its value under the empty key.
    """
    tree = _Node()
    nodes: dict[str, _Node] = {}  # by what stands before a key's last dot: it is the same for many keys
    for key, value in record.items():
        above, dot, last = key.rpartition(".")
        if not dot:
            node = tree
        elif (known := nodes.get(above)) is not None:
            node = known
        else:
            *path, last = key.split(".", _LONGEST_PATH)
            node = nodes[key[: -len(last) - 1]] = _node_at(tree, path)
        inner = value if type(value) is str or last in _DATA else _nest_value(value, depth)
        before = node.get(last)
        if isinstance(before, _Node):
            before.update(inner if isinstance(inner, _Node) else {"": inner})
        else:
            node[last] = inner
    return {key: _lists(value) if type(value) is _Node else value for key, value in tree.items()}


_LONGEST_PATH = 30


def _node_at(node: _Node, path: list[str]) -> _Node:
    for part in path:
        child = node.setdefault(part, _Node())
        if not isinstance(child, _Node):
            child = node[part] = _Node({"": child})
        node = child
    return node


def _nest_value(value: JSON, depth: int) -> JSON:
    if depth == _LONGEST_PATH:
        return value
    if isinstance(value, Mapping):
        return _Node(nest(value, depth + 1))
    return [_nest_value(item, depth + 1) for item in value] if isinstance(value, list) else value


def kept_attributes(attributes: JSON) -> dict[str, JSON]:
    """The few attributes (nested) that describe a span without repeating its inputs and outputs."""
    found = ((key, get(attributes, *path)) for key, path in _KEPT_AT.items() if path[0] in attributes)
    return {key: value for key, value in found if value is not None}


def inputs_and_outputs(attributes: JSON, kind: SpanKind, where: str, report: ReadReport) -> tuple[JSON, JSON]:
    """What went into a span and what came out, in the form that `Span` describes.

    `attributes` are nested (`nest`). Messages win over `input.value`, which repeats them.
    """
    is_llm = kind is SpanKind.LLM
    asked = _messages(get(attributes, "llm", "input_messages")) if is_llm else []
    answered = _messages(get(attributes, "llm", "output_messages")) if is_llm else []
    inputs: JSON = {"messages": asked}
    if not asked:
        inputs = _value(get(attributes, "input"), f"{where}, input.value", report)
    elif tools := [_schema(get(item, "tool", "json_schema")) for item in listed(get(attributes, "llm", "tools"))]:
        inputs["tools"] = tools
    outputs: JSON = {"messages": answered}
    if not answered:
        outputs = _value(get(attributes, "output"), f"{where}, output.value", report)
    if kind is SpanKind.TOOL:
        inputs = _arguments(inputs, decoded(get(attributes, "tool", "parameters")), f"{where}, input.value", report)
    elif kind in (SpanKind.RETRIEVER, SpanKind.RERANKER) and outputs is None:
        found = get(attributes, "retrieval", "documents") or get(attributes, "reranker", "output_documents")
        outputs = [get(item, "document") or item for item in listed(found)] or None
    return inputs, outputs


def plain_contents(inputs: JSON, outputs: JSON, kind: SpanKind, where: str, report: ReadReport) -> tuple[JSON, JSON]:
    """As `inputs_and_outputs`, for a source that has them beside each other: arguments by name, JSON texts decoded."""
    return inputs_and_outputs({"input": {"value": inputs}, "output": {"value": outputs}}, kind, where, report)


def _messages(value: JSON) -> list[JSON]:
    items = [get(item, "message") or item for item in listed(value)]
    return [read_message(item) for item in items if isinstance(item, dict)]


def _schema(value: JSON) -> JSON:
    read = loads_or_none(value) if isinstance(value, str) else None
    return value if read is None else read


def read_message(raw: Mapping[str, JSON]) -> dict[str, JSON]:
    """One message, as OpenInference, OpenAI or `Span` spell it, in the form that `Span` describes."""
    message: dict[str, JSON] = {"role": str(raw.get("role") or "unknown"), "content": raw.get("content")}
    if message["content"] is None and (held := listed(raw.get("contents"))):
        parts = [get(part, "message_content") or part for part in held]
        texts = (first(get(part, "text"), f"[{get(part, 'type') or 'part'}]") for part in parts)
        message["content"] = "\n".join(str(text) for text in texts if text != "")
    if calls := rows_of(raw.get("tool_calls")):
        message["tool_calls"] = [call_of(get(call, "tool_call") or call) for call in calls]
    for key in ("tool_call_id", "name"):
        if raw.get(key) is not None:
            message[key] = str(raw[key])
    return message


def call_of(call: JSON) -> dict[str, JSON]:
    """A call of a tool as `{id, name, arguments}`, whatever it calls these. What is no call of a known form is all in
    the arguments."""
    function = get(call, "function")
    if type(function) is dict and type(function.get("name")) is str and "arguments" in function:  # most are
        return {"id": call.get("id"), "name": function["name"], "arguments": decoded(function["arguments"])}
    call = decoded(call)
    if not isinstance(call, dict):
        return {"id": None, "name": "", "arguments": call}
    function = decoded(call.get("function"))
    held = {**call, **function} if isinstance(function, dict) else call
    named, given = (first(*(held.get(key) for key in keys)) for keys in (_NAMES, _ARGUMENTS))
    if named is None and given is None:
        known = (*CALL_IDS, "type")
        given = {key: value for key, value in call.items() if key not in known and value is not None} or None
    call_id = next((held[key] for key in CALL_IDS if held.get(key) is not None), None)
    return {"id": call_id, "name": str(named or ""), "arguments": decoded(given)}


CALL_IDS = ("call_id", "id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id")
"""Names of a call's id. OpenAI's Responses API has an id of the item beside that of the call."""
_NAMES = ("name", "toolName")
_ARGUMENTS = ("arguments", "args", "input")


def _arguments(inputs: JSON, parameters: JSON, where: str, report: ReadReport) -> JSON:
    """A tool's arguments by name: smolagents' `{"args", "kwargs"}` and a Python repr are read as what they mean."""
    if isinstance(inputs, str) and inputs.lstrip().startswith(("{", "[")):
        literal = _literal(inputs)
        if literal is not None:
            report.add("Python repr", where)
            inputs = literal
    if not isinstance(inputs, dict) or not {"args", "kwargs"} <= inputs.keys():
        return inputs
    args, kwargs = listed(inputs["args"]), inputs["kwargs"] if isinstance(inputs["kwargs"], dict) else {}
    names = list(parameters) if isinstance(parameters, dict) else []
    named = dict(zip(names, args, strict=False)) if len(names) >= len(args) else {"args": args}
    return {**named, **kwargs}


def _value(node: JSON, where: str, report: ReadReport) -> JSON:
    """`input` or `output` with its `value` decoded if it is JSON, more than once if it was encoded more than once."""
    value = get(node, "value") if isinstance(node, dict) else node
    read = decoded(value)
    if isinstance(read, str) and get(node, "mime_type") == "application/json":
        again = decoded(loads_or_none(read))
        if isinstance(again, dict | list):
            report.add("JSON inside a JSON text", where)
            return again
    return read


_LONGEST_LITERAL = 100_000


def _literal(text: str) -> JSON:
    """A Python literal as a JSON value, None if it is none."""
    try:
        if len(text) > _LONGEST_LITERAL:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown escapes in someone's text are not our concern
            return json.loads(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _lists(node: _Node) -> JSON:
    inner = {key: _lists(value) if type(value) is _Node else value for key, value in node.items()}
    if next(iter(node), "").isdecimal() and all(key.isdecimal() and len(key) < 10 for key in node):
        return [inner[key] for key in sorted(node, key=int)]
    return inner
