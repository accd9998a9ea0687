"""Kinds of argument values; what they refuse is told by argparse, with exit code 2."""

from __future__ import annotations

import argparse
import math


def count(text: str) -> int:
    """A whole number from 1."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: a whole number from 1 is")
    return number


def amount(text: str) -> float:
    """A number from 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: a number from 0 is")
    return number


def seed(text: str) -> int:
    """A whole number from 0 that every generator takes."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: a whole number from 0 to {2**32 - 1} is")
    return number
