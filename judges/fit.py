"""Cuts the longest contents of a rendering evenly until it fits; headers and ids go last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from judges.notation import prefixed

BYTES_PER_TOKEN = 4
LEAST_SHOWN = 200
"""Bytes of each content that a block shows at least, where others are left out for it."""

MARK_SIZE = 40
"""Most bytes of a cut mark; shorter contents are never cut."""

_BREAK = b"\n\x00\x00\x00"  # a line break costs a prefix (2 bytes) and may cost a backslash; NUL is in no clean text


@dataclass(frozen=True)
class Content:
    """One content of a span: `text` may be cut, `prefix` and `header` never are."""

    prefix: str
    header: str
    text: str

    @property
    def written(self) -> str:
        return prefixed(self.prefix, self.text, self.header)

    @property
    def overhead(self) -> int:
        """Most bytes that its first line takes beside the text: prefix, backslash, header, line break."""
        return _size(self.prefix) + _size(self.header) + 2

    @property
    def weighed(self) -> bytes:
        """As many bytes as the written text takes at most, line prefixes included."""
        return self.text.encode().replace(b"\n", _BREAK)

    @cached_property
    def weight(self) -> int:
        """The length of `weighed`."""
        return _size(self.text) + self.text.count("\n") * (len(_BREAK) - 1)


@dataclass(frozen=True)
class Block:
    """A span's header line (with its line break) and contents."""

    header: str
    contents: tuple[Content, ...]

    @property
    def written(self) -> str:
        return self.header + "".join(content.written for content in self.contents)

    @property
    def size_without_text(self) -> int:
        return _size(self.header) + sum(content.overhead for content in self.contents)


@dataclass(frozen=True)
class Fitted:
    """`kept` are the positions of the blocks that are shown, `cut` the number of content characters that are not."""

    text: str
    cut: int
    kept: tuple[int, ...]


def fit(blocks: Sequence[Block], token_limit: int) -> Fitted:
    """The blocks as text of at most `token_limit` tokens (UTF-8 bytes / 4).

    Too long: one level is found to which all longer contents are cut, and each keeps its head and its tail. If not even
    the headers fit, blocks are left out from the middle; the first and the last ones stay, with some of their contents.
    Every cut is stated in the text.
    """
    whole = "".join(block.written for block in blocks)
    limit = token_limit * BYTES_PER_TOKEN
    if _size(whole) <= limit:
        return Fitted(whole, 0, tuple(range(len(blocks))))
    first, last = _ends(blocks, limit)
    left_out = blocks[first:last]
    kept = [*range(first), *range(last, len(blocks))]
    note = f"[... {len(left_out)} spans left out ...]\n" if left_out else ""
    fixed = _size(note) + sum(blocks[i].size_without_text for i in kept)
    weights = [content.weight for i in kept for content in blocks[i].contents]
    level = _water_level(weights, limit - fixed)
    parts: list[str] = []
    cut = sum(len(content.text) for block in left_out for content in block.contents)
    for i in kept:
        if i == last:
            parts.append(note)
        parts.append(blocks[i].header)
        for content in blocks[i].contents:
            text, missing = _shortened(content, level)
            parts.append(prefixed(content.prefix, text, content.header))
            cut += missing
    if last == len(blocks):
        parts.append(note)
    return Fitted("".join(parts), cut, tuple(kept))


def _ends(blocks: Sequence[Block], limit: int) -> tuple[int, int]:
    """How many blocks stay at each end: positions [first, last) are left out."""
    if sum(_cost(block, 0) for block in blocks) <= limit:
        return len(blocks), len(blocks)
    room = limit - _size(f"[... {len(blocks)} spans left out ...]\n")
    first, last = 0, len(blocks)
    while first < last:
        from_front = first <= len(blocks) - last
        cost = _cost(blocks[first if from_front else last - 1], LEAST_SHOWN)
        if cost > room:
            break
        room -= cost
        first, last = (first + 1, last) if from_front else (first, last - 1)
    return first, last


def _cost(block: Block, level: int) -> int:
    """Most bytes of a block whose contents are cut to a level."""
    return block.size_without_text + sum(min(content.weight, max(level, MARK_SIZE)) for content in block.contents)


def _water_level(weights: Sequence[int], room: int) -> int:
    """The largest level such that the weights, cut to it, fit into the room."""
    left = len(weights)
    for weight in sorted(weights):
        if weight * left > room:
            return max(0, room // left)
        room -= weight
        left -= 1
    return max(weights, default=0)


def _shortened(content: Content, level: int) -> tuple[str, int]:
    """The text within `level` bytes (or its cut mark alone, where that is longer), and how many characters it lost."""
    if content.weight <= max(level, MARK_SIZE):
        return content.text, 0
    weighed = content.weighed
    room = max(0, level - MARK_SIZE)
    tail_size = room // 2
    head = _characters(weighed[: room - tail_size])
    tail = _characters(weighed[len(weighed) - tail_size :])
    missing = len(content.text) - len(head) - len(tail)
    return f"{head}{_mark(missing)}{tail}", missing


def _characters(weighed: bytes) -> str:
    return weighed.decode(errors="ignore").replace("\x00", "")


def _mark(missing: int) -> str:
    return f"[... {missing} characters left out ...]"


def _size(text: str) -> int:
    return len(text.encode())
