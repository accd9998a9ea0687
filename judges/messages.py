"""Messages of a conversation as contents of a rendering."""

from __future__ import annotations

import contextlib
import json
import re

from judges.fit import Content
from judges.notation import OTHER, TOOLS, bare_or_quoted, clean, json_text, quoted, text_of
from labeled_traces.trace import JSON


def conversation(prefix: str, value: JSON) -> list[list[Content]] | None:
    """The contents of each message, None if the value is no conversation."""
    messages = messages_of(value)
    return None if messages is None else [contents_of(prefix, message) for message in messages]


def messages_of(value: JSON) -> list[dict[str, JSON]] | None:
    """The messages of a conversation, None if the value is none."""
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list) or not all(isinstance(m, dict) and "role" in m for m in messages):
        return None
    return messages


def contents_of(prefix: str, message: dict[str, JSON]) -> list[Content]:
    role = re.sub(r"[^\w.-]", "_", str(message["role"])) or "unknown"
    if not re.match("[A-Za-z]", role) or role in (TOOLS, OTHER):
        role = f"role_{role}"
    name = message.get("name")
    content, calls = message.get("content"), message.get("tool_calls") or []
    contents = [
        Content(prefix, f"[{role} calls] ", _call(call)) for call in (calls if isinstance(calls, list) else [calls])
    ]
    if content in (None, "") and contents:
        return contents
    header = f"[{role} {quoted(name)}] " if isinstance(name, str) and name else f"[{role}] "
    return [Content(prefix, header, "" if content is None else message_text(content)), *contents]


def message_text(content: JSON) -> str:
    """Text parts of a content list are joined; anything else in it is shown as JSON."""
    if isinstance(content, list) and content and all(isinstance(p, dict) and p.get("type") == "text" for p in content):
        return clean("\n".join(str(part.get("text", "")) for part in content))
    return text_of(content)


def _call(call: JSON) -> str:
    call = call if isinstance(call, dict) else {"arguments": call}
    call = call["function"] if isinstance(call.get("function"), dict) else call
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError, RecursionError):
            arguments = json.loads(arguments)
    return f"{bare_or_quoted(str(call.get('name') or 'unknown'))}({json_text(arguments)})"
