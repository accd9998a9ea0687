"""Kinds of argument values; what they refuse is told by argparse, with exit code 2."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A kind of whole number."""
    accepted = f"a whole number from {least}" + ("" if most is None else f" to {most}")

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{text!r} is not accepted: {accepted} is")
        return value

    return number


count = whole(1)
seed = whole(0, 2**32 - 1)
"""A seed that every generator takes."""


def amount(text: str) -> float:
    """A number from 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: a number from 0 is")
    return number
