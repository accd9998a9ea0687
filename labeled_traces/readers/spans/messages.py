"""Chat messages as the frameworks write them, in the form that `Span` describes.

Read are messages of OpenAI's chat and its Responses API, blocks of Anthropic, messages of LangChain (as mappings, as
serialised objects, as pairs of role and text), contents of Google and parts of GenAI, tool calls of Vercel's AI SDK.
Results of tools, and what a model thought before it answered, are messages of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labeled_traces.json_values import decoded, first, get, rows_of
from labeled_traces.readers.spans.genai import genai_contents
from labeled_traces.readers.spans.message_parts import (
    CALLS,
    RESULTS,
    ROLES,
    THOUGHTS,
    content_text,
    no_conversation,
    split_message,
)
from labeled_traces.readers.spans.openinference import read_message
from labeled_traces.trace import JSON, SpanKind

KNOWN_ROLES = {"user", "assistant", "system", "developer", "tool", *ROLES}
_SAID = {"content", "parts", "tool_calls", "function_call", "reasoning_content", "additional_kwargs"}
_ALONE = {*CALLS, *RESULTS, *THOUGHTS, "text", "output_text"} - {"function_call", "function_call_output"}
"""Types of parts that may stand where a message is expected."""
_ITEM_META = {"id", "type", "status", "call_id", "name", "arguments", "output"}


def chat_messages(value: JSON, role: str = "user") -> list[JSON] | None:
    """The messages of a conversation, None where the value is none.

    Args:
        value: a message, a list of such, a mapping that holds one under `messages`, or any of these as JSON text.
        role: whose a message without a role is, in a list whose items say what they are in another way.
    """
    value = _unwrapped(decoded(value))
    items = value if isinstance(value, list) else [value]
    if len(items) == 1 and isinstance(items[0], list) and not _is_pair(items[0]):
        items = items[0]  # LangChain: a batch of one conversation
    if not items:
        return [] if isinstance(value, list) else None
    found: list[JSON] = []
    for item in items:
        messages = _read(decoded(item), role)
        if messages is None:
            return None
        found += messages
    return found


def llm_contents(inputs: JSON, outputs: JSON, tools: JSON = None, instructions: JSON = None) -> tuple[JSON, JSON]:
    """What a model was asked and what it answered, in the form that `Span` describes; what is no conversation stays.

    Args:
        tools, instructions: where they are recorded beside the messages.
    """
    if isinstance(get(decoded(inputs), "contents"), list):  # Google's API
        call = {"llm_request": inputs, "llm_response": outputs}
        asked, given = genai_contents({"gcp": {"vertex": {"agent": call}}}, SpanKind.LLM)
        return first(asked, decoded(inputs)), first(given, decoded(outputs))
    asked = chat_messages(inputs)
    answer = decoded(outputs)
    if get(answer, "object") == "response":  # OpenAI's Responses API: the answer says what was asked too
        tools, instructions = tools or answer.get("tools"), instructions or answer.get("instructions")
        answer = answer.get("output")
    if asked is None and isinstance(inputs, str) and inputs and decoded(inputs) == inputs:
        asked = [read_message({"role": "user", "content": inputs})]
    schemas = [decoded(tool) for tool in rows_of(tools)]
    if asked is not None:
        if instructions and not any(message["role"] in ("system", "developer") for message in asked):
            asked = [read_message({"role": "system", "content": content_text(instructions)}), *asked]
        schemas = schemas or rows_of(get(decoded(inputs), "tools"))
        inputs = {"messages": asked, **({"tools": schemas} if schemas else {})}
    else:
        inputs = no_conversation(inputs, schemas, instructions)
    if isinstance(answer, str):
        answered: JSON = [read_message({"role": "assistant", "content": answer})] if answer else None
    else:
        answered = chat_messages(answer, "assistant")
    return decoded(inputs), {"messages": answered} if answered else decoded(outputs)


def _unwrapped(value: JSON) -> JSON:
    """What stands under `messages`, in an answer's `choices` or in LangChain's `generations`."""
    if not isinstance(value, dict):
        return value
    if value.get("messages") is not None:
        return decoded(value["messages"])
    for key in ("choices", "generations"):
        if isinstance(value.get(key), list):
            rows = [row for given in value[key] for row in (given if isinstance(given, list) else [given])]
            return [first(get(row, "message"), get(row, "text")) for row in rows]
    return value


def _is_pair(item: JSON) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and item[0] in KNOWN_ROLES


def _read(item: JSON, role: str) -> list[JSON] | None:
    message = chat_message(item)
    if message is not None:
        return list(split_message(message, role))
    if not isinstance(item, dict):
        return None
    kind = str(item.get("type") or "")
    if "toolName" in item or kind in _ALONE:
        return list(split_message({"content": [item]}, "assistant" if kind in (*CALLS, *THOUGHTS) else role))
    return list(_item(item, kind)) if "call_id" in item or kind.endswith("_call") else None


def chat_message(item: JSON) -> Mapping[str, JSON] | None:
    """A message as a mapping with a `role`, a `content` and what else it has, or with `parts`; None if it is none."""
    if _is_pair(item):
        return {"role": item[0], "content": item[1]}
    if not isinstance(item, dict):
        return None
    kind, body = str(item.get("type") or ""), item
    if kind == "constructor" and isinstance(item.get("kwargs"), dict):  # a serialised object of LangChain
        names = item.get("id")
        kind, body = str(names[-1]) if isinstance(names, list) and names else "", item["kwargs"]
    elif isinstance(item.get("data"), dict) and "content" in item["data"]:  # LangChain's `message_to_dict`
        body = item["data"]
    named = kind.removesuffix("Chunk").removesuffix("Message").lower()
    if "role" not in body and "content" in body and named in KNOWN_ROLES:
        body = {**body, "role": named}
    return body if "parts" in body or ("role" in body and _SAID & body.keys()) else None


def _item(item: Mapping[str, JSON], kind: str) -> Iterator[JSON]:
    """A call, or a result, of OpenAI's Responses API. One of its own tools (`web_search_call`) is named by its type."""
    call_id = item.get("call_id") or item.get("id")
    if not kind.endswith("_output"):
        asked = first(item.get("arguments"), item.get("input"))
        if asked is None:
            asked = {key: value for key, value in item.items() if key not in _ITEM_META}
        call = {"id": call_id, "name": item.get("name") or kind.removesuffix("_call"), "arguments": asked}
        yield read_message({"role": "assistant", "content": None, "tool_calls": [call]})
    if item.get("output") is not None:
        yield read_message({"role": "tool", "content": content_text(item["output"]), "tool_call_id": call_id})
