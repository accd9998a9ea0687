"""Texts for a terminal: its width, its colours, and nothing in it that a trace could steer it with."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from dataclasses import dataclass
from typing import TextIO

_CODES = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "dim": 2, "bold": 1}


@dataclass(frozen=True)
class Terminal:
    """`width` in columns. `colour`: whether codes are written. `simple`: no other characters than ASCII of ours.
    `whole`: it is none, but a file or a pipe, in which `show` cuts nothing and `wrap` breaks no line."""

    width: int = 100
    colour: bool = False
    simple: bool = False
    whole: bool = False

    @classmethod
    def of(cls, stream: TextIO) -> Terminal:
        """Colour only on a terminal, and not where NO_COLOR is set to anything."""
        on_terminal = stream.isatty()
        colour = on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        encoding = (getattr(stream, "encoding", None) or "ascii").lower()
        width = shutil.get_terminal_size((100, 24)).columns if on_terminal or "COLUMNS" in os.environ else 100
        return cls(max(40, width), colour, not encoding.startswith("utf"), not on_terminal)

    @classmethod
    def of_output(cls, json_wanted: bool) -> Terminal:
        """That of what is printed for people."""
        return cls.of(sys.stderr if json_wanted else sys.stdout)

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if self.colour and colour and text else text

    def fit(self, text: str, columns: int) -> str:
        """On one line and at most so many columns, cut at its end."""
        line = one_line(text)
        if columns_of(line) <= columns:
            return line
        mark = "..." if self.simple else "…"
        room = max(0, columns - columns_of(mark))
        kept = ""
        for character in line:
            room -= _columns(character)
            if room < 0:
                break
            kept += character
        return kept + mark

    def show(self, text: str) -> str:
        """A text that people come to read, on one line: cut only where the line would not fit a screen."""
        return one_line(text) if self.whole else self.fit(text, self.width)

    def wrap(self, text: str, indent: str = "") -> str:
        """Whole, on as many lines as it takes, broken at blanks alone: an id stays one word."""
        lines = [indent]
        for word in one_line(text).split(" "):
            gap = "" if lines[-1] == indent else " "
            if gap and not self.whole and columns_of(f"{lines[-1]} {word}") > self.width:
                lines.append(indent + word)
            else:
                lines[-1] += gap + word
        return "\n".join(lines)


def counted(number: int, name: str) -> str:
    """`1 trace`, `2,000 traces`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def one_line(text: str) -> str:
    """White space as one blank each; what would steer a terminal as U+FFFD."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Controls (escape sequences, changes of direction ...) as U+FFFD; line breaks and tabs stay."""
    return "".join("\ufffd" if _steers(character) else character for character in text)


def columns_of(text: str) -> int:
    """How many columns a text takes: wide characters take two, combining ones none."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if character < "\x7f":
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _steers(character: str) -> bool:
    if character in "\n\t":
        return False
    return (
        unicodedata.category(character) in ("Cc", "Cs")
        or "\u202a" <= character <= "\u202e"
        or ("\u2066" <= character <= "\u2069")
    )
