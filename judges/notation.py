"""How a trace is written as text: what `render` writes and `rendered` reads back.

One block a span, in walk order:

    @span <id> kind=LLM name="planner" parent=<id or -> status=ERROR
    > [user] an input message; each further line of it starts with "> " as well
    < [assistant] an output message
    < [assistant calls] db_lookup({"entity": "..."})
    ! error text

Every line of content carries a prefix, so nothing that a trace holds can pass for a span's header, for a fence or for
a heading of the prompt. A content line that looks like a message header is written with a backslash before it.
"""

from __future__ import annotations

import json
import re

from labeled_traces.trace import JSON

SPAN = "@span "
INPUT, OUTPUT, ERROR = "> ", "< ", "! "
TOOLS, OTHER = "tools", "other"
"""Message headers that stand for an LLM span's tool schemas and for inputs beside messages and tools."""

MESSAGE_HEADER = re.compile(r'\[([A-Za-z][\w.-]*)( calls| "(?:[^"\\]|\\.)*")?\](?: |$)')
_ESCAPED = re.compile(r"\\|" + MESSAGE_HEADER.pattern)
_UNPRINTABLE = re.compile("[\x00\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
_BARE = re.compile(r'[^\s"\\(),]+')


def clean(text: str) -> str:
    """CRLF becomes LF; NUL, lone surrogates and line breaks other than LF become U+FFFD, one for one."""
    return _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n"))


def json_text(value: JSON) -> str:
    """JSON on one line; what JSON cannot hold is written as Python writes it."""
    try:
        return clean(json.dumps(value, ensure_ascii=False, default=str))
    except (ValueError, TypeError, RecursionError) as error:
        return f"(not shown: {error})"


def text_of(value: JSON) -> str:
    """Strings as they are, all else as JSON."""
    return clean(value) if isinstance(value, str) else json_text(value)


def value_of(text: str) -> JSON:
    """The inverse of `text_of` as far as it can be told: JSON where the text is exactly what `text_of` writes."""
    if text[:1] not in '{["-0123456789tfnNI' or not text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if not isinstance(value, str) and json_text(value) == text else text


def quoted(text: str) -> str:
    """A JSON string on one line; readable where all of it can be printed."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def bare_or_quoted(name: str) -> str:
    """An id or a tool's name: as it is where it is one plain word, else a JSON string."""
    return name if name != "-" and name.isprintable() and _BARE.fullmatch(name) else quoted(name)


def prefixed(prefix: str, text: str, header: str = "") -> str:
    """A content as prefixed lines, closed by a line break; `header` opens the first line."""
    lines = text.split("\n")
    first = lines[0] if header else escaped(lines[0])
    rest = (f"{prefix}{escaped(line)}\n" for line in lines[1:])
    return f"{prefix}{header}{first}\n{''.join(rest)}"


def escaped(line: str) -> str:
    return "\\" + line if _ESCAPED.match(line) else line


def unescaped(line: str) -> str:
    return line[1:] if line.startswith("\\") else line
