"""One chat message, however a framework writes it, as messages in the form that `Span` describes.

Read are roles in any spelling, contents that are texts or lists of parts (of OpenAI, Anthropic, Bedrock, Google, the
GenAI conventions, Vercel's AI SDK), and calls of tools beside them. Results of tools, and what a model thought before
it answered, are messages of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from labeled_traces.json_values import decoded, first, get, rows_of, text_of
from labeled_traces.readers.spans.openinference import CALL_IDS, call_of, read_message
from labeled_traces.trace import JSON

ROLES = {"human": "user", "ai": "assistant", "model": "assistant", "chat": "user", "function": "tool"}
"""Other names of roles."""
CALLS = ("tool_call", "tool-call", "tool_use", "server_tool_use", "function_call")
RESULTS = (
    *("tool_call_response", "tool-result", "tool_result", "function_call_output"),
    *("web_search_tool_result", "mcp_tool_result"),
)
THOUGHTS = ("reasoning", "thinking", "redacted_thinking")
_CALL_KEYS = ("function_call", "functionCall", "toolUse")
_RESULT_KEYS = ("function_response", "functionResponse", "toolResult")
_SAID = {"content", "parts", "text", "tool_calls", "function_call", "reasoning_content", "reasoning"}
_META = {"role", "name", "id", "type", "tool_call_id", "finish_reason", "status"}
"""Of a message in which nobody says anything in a known way, all but these is its text."""
_MEDIA = ("blob", "uri", "image", "audio", "video", "file", "document", "media")
"""In the type of a part that shows or plays something."""


def messages_of(value: JSON, role: str) -> list[JSON]:
    """Messages out of a list, one message, or a text; `role` is whose they are where they do not say."""
    value = decoded(value)
    items = value if isinstance(value, list) else [] if value in (None, "") else [value]
    raw = (item if isinstance(item, dict) else {"content": item} for item in items)
    return [message for item in raw for message in split_message(item, role)]


def conversation(messages: Sequence[JSON], tools: JSON = None) -> JSON:
    """Messages as the inputs or outputs of a call of a model, with the schemas of its tools; None without messages."""
    if not messages:
        return None
    return {"messages": list(messages), **({"tools": tools} if isinstance(tools, list) and tools else {})}


def no_conversation(inputs: JSON, tools: JSON, instructions: JSON = None) -> JSON:
    """What a model was given that is no conversation, with what stands beside it."""
    given = {key: value for key, value in (("instructions", instructions), ("tools", tools)) if value}
    return {"input": decoded(inputs), **given} if given else decoded(inputs)


def split_message(raw: Mapping[str, JSON], role: str) -> Iterator[JSON]:
    """A message, after the results of tools and the thoughts that stand in it.

    Args:
        role: whose it is where it does not say.
    """
    if (plain := _plain_message(raw)) is not None:
        yield plain
        return
    name = str(raw.get("role") or role).lower()
    name = ROLES.get(name, name)
    parts = raw.get("parts")
    content = raw.get("content", raw.get("text"))
    if parts is None and isinstance(content, list) and all(isinstance(part, dict | str) for part in content):
        parts = content
    texts: list[str] = []
    thoughts = [raw[key] for key in ("reasoning_content", "reasoning") if isinstance(raw.get(key), str)]
    calls = list(_calls(raw))
    results: list[JSON] = []
    for part in parts if isinstance(parts, list) else [] if parts is None else [parts]:
        if (call := _held(part, CALLS, _CALL_KEYS)) is not None:
            calls.append(call_of(call))
        elif (result := _held(part, RESULTS, _RESULT_KEYS)) is not None:
            results.append(_result(result))
        elif get(part, "type") in THOUGHTS or get(part, "thought") is True:
            said = first(get(part, "thinking"), get(part, "text"), get(part, "content"), get(part, "summary"), "")
            thoughts.append(content_text(said))
        else:
            texts.append(content_text(part))
    yield from results
    if any(thoughts):
        yield read_message({"role": name, "content": "\n".join(["[reasoning]", *filter(None, thoughts)])})
    text = content_text(content) if isinstance(content, dict) else content
    if parts is not None:
        text = "\n".join(filter(None, texts)) or ("" if parts is content else None)
    if not text and not _SAID & raw.keys() and (rest := {key: raw[key] for key in raw.keys() - _META}):
        text = text_of(rest)
    if text or calls or not (results or any(thoughts)):
        outer = {key: raw.get(key) for key in ("name", "tool_call_id")}
        yield read_message({**outer, "role": name, "content": text, "tool_calls": _without_copies(calls)})


def _plain_message(item: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """A message that is in the form of `Span` already: most are, and each call of a model repeats them, so this look
    comes first (without it import of Langfuse takes a third longer); None for any other."""
    if type(item) is not dict or not item.keys() <= _PLAIN_KEYS or item.get("role") not in _PLAIN_ROLES:
        return None
    content, calls = item.get("content"), item.get("tool_calls")
    if type(content) is not str or not (content or calls):
        return None
    message = {"role": item["role"], "content": content}
    if calls:
        if type(calls) is not list or not all(map(_is_plain_call, calls)) or _without_copies(calls) != calls:
            return None
        message["tool_calls"] = [{key: call[key] for key in _CALL} for call in calls]
    for key in ("tool_call_id", "name"):
        if item.get(key) is not None:
            message[key] = str(item[key])
    return message


_PLAIN_ROLES = ("system", "user", "assistant", "tool")
_PLAIN_KEYS = {"role", "content", "tool_calls", "tool_call_id", "name"}
_CALL = ("id", "name", "arguments")


def _is_plain_call(call: JSON) -> bool:
    named = type(call) is dict and call.keys() == set(_CALL) and type(call["id"]) is str and type(call["name"]) is str
    return named and call["name"] != "" and type(call["arguments"]) is dict


def content_text(value: JSON) -> str:
    """The text of a content: a text, a part, or a list of parts; pictures and the like are named, not shown; anything
    else as JSON."""
    if isinstance(value, list) and value and all(map(_is_part, value)):
        return "\n".join(filter(None, map(content_text, value)))
    if not _is_part(value):
        return text_of(value)
    if isinstance(text := get(value, "text"), str):
        return text
    kind = str(get(value, "type") or "")
    media = first(get(value, "inline_data"), get(value, "inlineData"))
    if media is None and any(word in kind for word in _MEDIA):
        media = value
    if isinstance(media, dict):
        about = (kind or "file", media.get("modality"), *(media.get(key) for key in ("mime_type", "mimeType")))
        address = first(media.get("url"), get(media, "image_url", "url"), media.get("image_url"))
        linked = address if isinstance(address, str) and address.startswith("http") else None  # else it is the picture
        where = first(media.get("uri"), media.get("file_id"), media.get("filename"), linked)
        return f"[{' '.join(str(word) for word in (*about, where) if word)}]"
    return text_of(first(get(value, "content"), value))


def _is_part(value: JSON) -> bool:
    return isinstance(value, dict) and ("type" in value or len(value) == 1)


def _held(part: JSON, types: tuple[str, ...], keys: tuple[str, ...]) -> JSON:
    """What a part of one of these types holds, None for another part."""
    if not isinstance(part, dict):
        return None
    inner = next((part[key] for key in keys if part.get(key) is not None), None)
    named = types is CALLS and "toolName" in part and "type" not in part
    return part if inner is None and (part.get("type") in types or named) else inner


def _calls(raw: Mapping[str, JSON]) -> Iterator[JSON]:
    """The calls of tools that stand beside a message's content; those of which the arguments are no JSON last."""
    rows = rows_of(raw.get("tool_calls")) or rows_of(get(raw, "additional_kwargs", "tool_calls"))
    yield from map(call_of, (*rows, *rows_of(raw.get("invalid_tool_calls"))))
    if not rows and raw.get("function_call"):
        yield call_of(raw["function_call"])


def _without_copies(calls: list[JSON]) -> list[JSON]:
    """A call may stand in a message twice: as a part and among its calls."""
    named = {str(call_id): call for call in calls if (call_id := get(call, "id")) is not None}
    return [*named.values(), *(call for call in calls if get(call, "id") is None)]


def _result(result: JSON) -> JSON:
    if not isinstance(result, dict):
        return read_message({"role": "tool", "content": text_of(result)})
    given = next((result[key] for key in ("response", "result", "output", "content") if key in result), "")
    if isinstance(given, dict) and given.keys() == {"type", "value"}:  # Vercel's AI SDK
        given = given["value"]
    call_id = next((result[key] for key in CALL_IDS if result.get(key) is not None), None)
    name = first(result.get("name"), result.get("toolName"))
    return read_message({"role": "tool", "content": content_text(given), "tool_call_id": call_id, "name": name})
