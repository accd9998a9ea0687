"""Chat messages as the frameworks write them, in the form that `Span` describes.

Read are messages of OpenAI's chat and its Responses API, blocks of Anthropic, messages of LangChain (as mappings, as
serialised objects, as pairs of role and text), contents of Google and parts of GenAI, tool calls of Vercel's AI SDK.
Results of tools, and what a model thought before it answered, are messages of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from labeled_traces.json_values import decoded, first, get
from labeled_traces.readers.spans.genai import genai_contents
from labeled_traces.readers.spans.openinference import read_message
from labeled_traces.trace import JSON, SpanKind

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "chat": "user", "function": "tool"}
_KNOWN = {"user", "assistant", "system", "developer", "tool", *_ROLES}
_CALL_TYPES = {"tool_use", "server_tool_use", "tool-call", "tool_call"}
_RESULT_TYPES = {"tool_result", "tool-result", "web_search_tool_result", "mcp_tool_result"}
_THOUGHT_TYPES = {"thinking", "reasoning", "redacted_thinking"}
_SAID = {"content", "tool_calls", "function_call", "reasoning_content", "additional_kwargs"}
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


def last_text(messages: JSON) -> str | None:
    """What the last message with a text says."""
    texts = (get(message, "content") for message in reversed(messages if isinstance(messages, list) else []))
    return next((text for text in texts if isinstance(text, str) and text), None)


def text_of_user(messages: JSON) -> str | None:
    """What the first message of a user says."""
    rows = messages if isinstance(messages, list) else []
    texts = (row["content"] for row in rows if get(row, "role") == "user")
    return next((text for text in texts if isinstance(text, str) and text), None)


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
    if asked is not None:
        if instructions and not any(message["role"] in ("system", "developer") for message in asked):
            asked = [read_message({"role": "system", "content": _text(instructions)}), *asked]
        given = [decoded(tool) for tool in tools] if isinstance(tools, list) else []
        schemas = given or get(decoded(inputs), "tools")
        inputs = {"messages": asked, **({"tools": schemas} if schemas else {})}
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
            rows = value[key]
            rows = rows[0] if rows and isinstance(rows[0], list) else rows
            return [first(get(row, "message"), get(row, "text")) for row in rows]
    return value


def _is_pair(item: JSON) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and item[0] in _KNOWN


def _read(item: JSON, role: str) -> list[JSON] | None:
    if _is_pair(item):
        item = {"role": item[0], "content": item[1]}
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("kwargs"), dict) and item.get("type") == "constructor":  # a serialised object of LangChain
        names = item.get("id")
        name = str(names[-1]) if isinstance(names, list) and names else ""
        item = {"type": name.removesuffix("Chunk").removesuffix("Message").lower(), **item["kwargs"]}
    if "parts" in item:
        return _from_parts(item, role)
    kind = str(item.get("type") or "")
    if "role" not in item and "content" in item and kind.removesuffix("MessageChunk").lower() in _KNOWN:
        item = {**item, "role": kind.removesuffix("MessageChunk").lower()}
    if "role" in item and _SAID & item.keys():
        return list(_message(item))
    if "toolName" in item or kind in _CALL_TYPES | _RESULT_TYPES | _THOUGHT_TYPES | {"text", "output_text"}:
        return list(_message({"role": role, "content": [item]}))
    return list(_item(item, kind)) if "call_id" in item or kind.endswith("_call") else None


def _from_parts(item: Mapping[str, JSON], role: str) -> list[JSON]:
    side = "output" if role == "assistant" else "input"
    inputs, outputs = genai_contents({"gen_ai": {side: {"messages": [item]}}}, SpanKind.LLM)
    return list(get(outputs if side == "output" else inputs, "messages") or [])


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
        yield read_message({"role": "tool", "content": _text(item["output"]), "tool_call_id": call_id})


def _message(raw: Mapping[str, JSON]) -> Iterator[JSON]:
    role = str(raw["role"]).lower()
    role = _ROLES.get(role, role)
    texts: list[str] = []
    thoughts = [str(raw[key]) for key in ("reasoning_content", "reasoning") if isinstance(raw.get(key), str)]
    calls = [*_calls(raw)]
    content = raw.get("content")
    for block in content if isinstance(content, list) else []:
        kind = str(get(block, "type") or "")
        if kind in _CALL_TYPES or (not kind and get(block, "toolName")):
            calls.append(_call(block))
        elif kind in _RESULT_TYPES:
            given = first(block.get("content"), block.get("output"), block.get("result"))
            call_id = first(block.get("tool_use_id"), block.get("toolCallId"))
            yield read_message({"role": "tool", "content": _text(given), "tool_call_id": call_id})
        elif kind in _THOUGHT_TYPES:
            thoughts.append(_text(first(block.get("thinking"), block.get("text"), block.get("summary"), "")))
        else:
            texts.append(_text(block))
    if any(thoughts):
        yield read_message({"role": role, "content": "\n".join(["[reasoning]", *filter(None, thoughts)])})
    text = "\n".join(filter(None, texts)) if isinstance(content, list) else content
    if isinstance(text, dict):
        text = _text(text)
    if text or calls or not (content or any(thoughts)):
        kept = {key: raw[key] for key in ("tool_call_id", "name") if raw.get(key) is not None}
        ids = {call["id"]: call for call in calls if call["id"] is not None}  # blocks repeat what `tool_calls` says
        unnamed = [call for call in calls if call["id"] is None]
        yield read_message({"role": role, "content": text, "tool_calls": [*ids.values(), *unnamed], **kept})


def _calls(raw: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    found = raw.get("tool_calls") or get(raw, "additional_kwargs", "tool_calls")
    rows = found if isinstance(found, list) else []
    wrong = raw.get("invalid_tool_calls")
    yield from (_call(get(row, "function") or row, get(row, "id")) for row in rows if isinstance(row, dict))
    yield from (_call(row) for row in (wrong if isinstance(wrong, list) else []) if isinstance(row, dict))
    if not rows and isinstance(raw.get("function_call"), dict):
        yield _call(raw["function_call"])


def _call(row: Mapping[str, JSON], call_id: JSON = None) -> dict[str, JSON]:
    arguments = (row.get(key) for key in ("arguments", "args", "input"))
    return {
        "id": first(call_id, row.get("id"), row.get("toolCallId")),
        "name": first(row.get("name"), row.get("toolName")),
        "arguments": first(*arguments),
    }


def _text(value: JSON) -> str:
    """The text of a content: a text, a block, or a list of blocks; pictures and the like are named, not shown."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, dict) and "type" in item for item in value):
        return "\n".join(map(_text, value))
    text = get(value, "text")
    if isinstance(text, str):
        return text
    kind = str(get(value, "type") or "")
    if any(word in kind for word in ("image", "audio", "video", "file", "document", "media")):
        return f"[{kind}]"
    return "" if value is None else json.dumps(value, ensure_ascii=False)
