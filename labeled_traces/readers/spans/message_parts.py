"""Chat messages that are made of parts (texts, calls of tools, their results, thoughts), as the GenAI conventions,
Gemini, Anthropic, Bedrock and Vercel spell them, in the form that `Span` describes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from labeled_traces.json_values import decoded, first, get
from labeled_traces.readers.spans.openinference import read_message
from labeled_traces.trace import JSON

_ROLES = {"model": "assistant", "human": "user", "ai": "assistant"}
_CALLS = ("tool_call", "tool-call", "tool_use", "function_call")
_CALL_KEYS = ("function_call", "functionCall", "toolUse")
_RESULTS = ("tool_call_response", "tool-result", "tool_result", "function_call_output")
_RESULT_KEYS = ("function_response", "functionResponse", "toolResult")
_IDS = ("id", "toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
_THOUGHTS = ("reasoning", "thinking")
_MEDIA = ("blob", "uri", "file", "image", "image_url", "input_image", "audio", "video", "document")


def messages_of(value: JSON, role: str) -> list[JSON]:
    """Messages out of a list, one message, or a text; `role` is whose they are where they do not say."""
    value = decoded(value)
    items = value if isinstance(value, list) else [] if value in (None, "") else [value]
    raw = (item if isinstance(item, dict) else {"content": item} for item in items)
    return [message for item in raw for message in _split(item, role)]


def _split(raw: Mapping[str, JSON], role: str) -> Iterator[JSON]:
    """A message as `read_message` reads it. Of one with parts the results of tools and what a model thought before it
    answered are messages of their own."""
    name = str(raw.get("role") or role)
    name = _ROLES.get(name, name)
    parts = raw.get("parts")
    content = raw.get("content", raw.get("text"))
    if parts is None and isinstance(content, list) and content and all(isinstance(part, dict) for part in content):
        parts = content
    if parts is None:
        yield read_message({**raw, "role": name, "content": content})
        return
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[JSON] = list(raw.get("tool_calls") or ())
    results: list[JSON] = []
    for part in parts if isinstance(parts, list) else [parts]:
        if (call := _of(part, _CALLS, _CALL_KEYS)) is not None:
            calls.append(_call(call))
        elif (result := _of(part, _RESULTS, _RESULT_KEYS)) is not None:
            results.append(_result(result))
        else:
            thought = get(part, "type") in _THOUGHTS or get(part, "thought") is True
            (thoughts if thought else texts).append(_text_of(part))
    yield from results
    if any(thoughts):
        yield read_message({"role": name, "content": "\n".join(["[reasoning]", *filter(None, thoughts)])})
    text = "\n".join(filter(None, texts)) or None
    if text is not None or calls or not (results or any(thoughts)):
        outer = {key: raw.get(key) for key in ("name", "tool_call_id")}
        yield read_message({**outer, "role": name, "content": text, "tool_calls": _without_copies(calls)})


def _of(part: JSON, types: tuple[str, ...], keys: tuple[str, ...]) -> JSON:
    """What a part of one of these types holds, None for another part."""
    if not isinstance(part, dict):
        return None
    inner = next((part[key] for key in keys if part.get(key) is not None), None)
    return part if inner is None and part.get("type") in types else inner


def _call(call: JSON) -> JSON:
    if not isinstance(call, dict):
        return {"id": None, "name": None, "arguments": decoded(call)}
    arguments = next((call[key] for key in ("arguments", "args", "input") if key in call), None)
    return {
        "id": next((call[key] for key in _IDS if call.get(key) is not None), None),
        "name": first(call.get("name"), call.get("toolName")),
        "arguments": decoded(arguments),
    }


def _without_copies(calls: list[JSON]) -> list[JSON]:
    """A call may stand in a message twice: as a part and among its calls."""
    named = {str(call_id): call for call in calls if (call_id := get(call, "id")) is not None}
    return [*named.values(), *(call for call in calls if get(call, "id") is None)]


def _result(result: JSON) -> JSON:
    if not isinstance(result, dict):
        return read_message({"role": "tool", "content": _text(result)})
    given = next((result[key] for key in ("response", "result", "output", "content") if key in result), None)
    if isinstance(given, dict) and given.keys() == {"type", "value"}:
        given = given["value"]
    if isinstance(given, list) and given and all(isinstance(get(part, "text"), str) for part in given):
        given = "\n".join(part["text"] for part in given)
    call_id = next((result[key] for key in _IDS if result.get(key) is not None), None)
    name = first(result.get("name"), result.get("toolName"))
    return read_message({"role": "tool", "content": _text(given), "tool_call_id": call_id, "name": name})


def _text_of(part: JSON) -> str:
    kind = get(part, "type")
    media = first(get(part, "inline_data"), get(part, "inlineData"), part if kind in _MEDIA else None)
    if isinstance(media, dict):
        about = (kind or "file", media.get("modality"), *(media.get(key) for key in ("mime_type", "mimeType")))
        where = first(media.get("uri"), media.get("file_id"), media.get("filename"))
        return f"[{' '.join(str(word) for word in (*about, where) if word)}]"
    return _text(first(get(part, "text"), get(part, "content"), get(part, "thinking"), part))


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
