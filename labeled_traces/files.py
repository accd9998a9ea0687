"""Reading and writing text, JSON and YAML files, with errors that name file and line."""

from __future__ import annotations

import os
import re
import tempfile
import zlib
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from labeled_traces.compressed import open_bytes
from labeled_traces.quick_json import loads
from labeled_traces.trace import JSON, TraceError

_BUFFER = 500_000
"""Bytes: traces are long lines, which are read in a quarter of the time that Python's own buffer of 8 kB takes."""
_RECORDS = "a JSON or JSON Lines file in UTF-8"


def read_lines(
    path: Path,
    leave_out: Callable[[TraceError], None] | None = None,
    taken: Callable[[int], object] | None = None,
) -> Iterator[tuple[int, str]]:
    """Line numbers (from 1) and lines, one in memory at a time; blank lines are left out. Only `\\n` ends a line.

    Args:
        leave_out: gets the error of a line after the first that is not UTF-8 text; None means it is raised.
        taken: gets how many bytes each line had.

    Raises:
        TraceError: no such file, a folder, unreadable, or not UTF-8 text.
    """
    return ((number, line) for number, line in _all_lines(path, _RECORDS, leave_out, taken) if line.strip())


def read_text(path: Path, accepted: str = _RECORDS) -> str:
    """The whole file. Raises as `read_lines` does, with `accepted` in the message."""
    return "".join(line for _, line in _all_lines(path, accepted))


def _all_lines(
    path: Path,
    accepted: str,
    leave_out: Callable[[TraceError], None] | None = None,
    taken: Callable[[int], object] | None = None,
) -> Iterator[tuple[int, str]]:
    try:
        with open_bytes(path, _BUFFER) as file:
            for number, raw in enumerate(file, 1):
                if taken is not None:
                    taken(len(raw))
                try:
                    # Some writers let a lone surrogate through as three bytes: read, and left to whoever reads on.
                    line = raw.decode("utf-8", "surrogatepass")
                except UnicodeDecodeError as error:
                    reason = f"not UTF-8 text ({error.reason}): accepted is {accepted}"
                    damage = TraceError(f"{path}, line {number}: {reason}")
                    if leave_out is None or number == 1:
                        raise damage from None
                    leave_out(damage)
                    continue
                yield number, line.removeprefix("\ufeff") if number == 1 else line
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or f"damaged gzip: {error}"
        raise TraceError(f"{path}: cannot be read ({reason}): accepted is {accepted}") from None


def parse_json(text: str, where: str) -> JSON:
    """Raises: TraceError, naming `where`, if the text is not one JSON value or is nested too deeply to read."""
    try:
        return loads(text)
    except RecursionError:
        raise TraceError(f"{where}: nested too deeply to read") from None
    except ValueError as error:
        raise TraceError(f"{where}: not JSON ({error})") from None


def read_yaml(path: Path) -> dict[str, JSON]:
    """The mapping that a YAML file holds; a value that JSON does not have (a date, a set ...) is an error.

    Raises:
        TraceError: no such file, or not such a mapping; names file and line.
    """
    return parse_yaml(read_text(path, "a YAML file in UTF-8"), str(path))


def parse_yaml(text: str, where: str) -> dict[str, JSON]:
    """As `read_yaml`, for a text. Raises: TraceError, naming `where` and the line."""
    value: Any = None
    try:
        loader = _YAML(text)
        try:
            value = loader.get_single_data()
        except RecursionError:
            raise TraceError(f"{where}, line {loader.line + 1}: nested too deeply to read") from None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise TraceError(f"{where}{line}: not readable YAML ({error.problem or error.context})") from None
    except yaml.reader.ReaderError as error:
        line = f", line {text.count(chr(10), 0, error.position) + 1}"
        raise TraceError(f"{where}{line}: not readable YAML ({error.reason})") from None
    if not isinstance(value, dict):
        kind = "empty" if value is None else type(value).__name__
        raise TraceError(f"{where}: is {kind}: accepted is a YAML mapping (`key: value` lines)")
    return value


class _YAML(yaml.SafeLoader):
    """YAML as far as JSON has it. Aliases may repeat a value, but neither hold themselves nor blow up."""

    def get_single_node(self) -> yaml.Node | None:
        root = super().get_single_node()
        stack = [(root, 0)] if root is not None else []
        seen = 0
        while stack:
            node, depth = stack.pop()
            seen += 1
            if depth > _DEEPEST or seen > _MOST_NODES:
                raise _fault("nested too deeply" if depth > _DEEPEST else f"more than {_MOST_NODES} values", node)
            if isinstance(node, yaml.MappingNode):
                stack += [(part, depth + 1) for pair in node.value for part in pair]
            elif isinstance(node, yaml.SequenceNode):
                stack += [(part, depth + 1) for part in node.value]
        return root

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else []:
            merge = key.tag == f"{_TAG}merge"
            if not merge and key.tag != f"{_TAG}str":
                raise _fault(f"a key {_short(key)} that is no text: accepted as text, in quotes", key)
            if not merge and key.value in seen:
                raise _fault(f"the key {_short(key)} is there twice", key)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            kind = node.tag.removeprefix(_TAG)
            if kind in _JSON_TAGS and not (kind in _NUMBERS and _OLD_NUMBER.match(str(node.value))):
                return super().construct_object(node, deep)
        except (ValueError, LookupError):  # a tag that its value does not fit: `!!int x`, `!!bool x`
            pass
        kind = node.tag.rpartition(":")[2]
        raise _fault(f"a value {_short(node)} of type {kind}: accepted as text, in quotes", node)


def _fault(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(None, None, problem, node.start_mark)


def _short(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return repr(node.value[:80])
    return "(a mapping)" if isinstance(node, yaml.MappingNode) else "(a sequence)"


_TAG = "tag:yaml.org,2002:"
_NUMBERS = {
    "int": re.compile(r"[-+]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)\Z"),
    "float": re.compile(
        r"(?:[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?|\.[0-9]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}
"""What is a number without a tag: what both PyYAML, which knows YAML 1.1, and YAML 1.2 take for one. So 010 (8 in 1.1)
and 1:30 (90) are text, and what PyYAML writes is read back as it was."""
_OLD_NUMBER = re.compile(r"[-+]?0[0-7_]+\Z|.*:")
"""What PyYAML reads as octal or with base 60 where it is tagged as a number."""
_YAML.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag.removeprefix(_TAG) not in _NUMBERS]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _form in _NUMBERS.items():
    _YAML.add_implicit_resolver(f"{_TAG}{_kind}", _form, list("-+.0123456789"))
_DEEPEST = 50
_MOST_NODES = 100_000
_JSON_TAGS = {"null", "bool", "int", "float", "str", "seq", "map"}


_DEVICES = {"/dev/stdin", "/dev/stdout", "/dev/stderr"}
"""Links, so they may lead to a file."""


def check_writable(path: Path) -> None:
    """Raises: TraceError, if a folder is where the file is to be, or a file where its folder is to be; or a device or a
    pipe, which the file would replace."""
    if os.path.isdir(path):
        raise TraceError(f"{path}: is a folder: accepted is the name of a file")
    if (os.path.exists(path) and not os.path.isfile(os.path.realpath(path))) or os.path.abspath(path) in _DEVICES:
        raise TraceError(f"{path}: is a device or a pipe: accepted is the name of a file")
    for above in path.parents:
        if os.path.exists(above) and not os.path.isdir(above):
            raise TraceError(f"{path}: {above} is a file, no folder: accepted is the name of a file in a folder")


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes a file as a whole or not at all: a kill or an error on the way leaves what was there before.

    Raises:
        TraceError: a place where no file can be written.
    """
    check_writable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise TraceError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line)
                file.write("\n")
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException as error:
        with suppress(FileNotFoundError):  # an interrupt that came when the file had its name
            os.unlink(name)
        if isinstance(error, OSError):
            raise TraceError(f"{path}: cannot be written ({error.strerror})") from None
        raise
