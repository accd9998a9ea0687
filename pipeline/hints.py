"""Command lines of this program that people can copy into a shell."""

from __future__ import annotations

import shlex


def command(*words: object) -> str:
    return shlex.join(["gpa-judges", *map(str, words)])
