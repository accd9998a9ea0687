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


def add_calls(parser: argparse.ArgumentParser, budget: str = "budget") -> None:
    """How calls are made and what they may cost; `budget` says what the caps hold for."""
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the calls (0)")
    parser.add_argument("--concurrency", type=count, default=8, metavar="N", help="judgments in flight (8)")
    parser.add_argument("--timeout", type=amount, default=60.0, metavar="SECONDS", help="per call (60)")
    parser.add_argument("--max-calls", type=count, metavar="N", help=budget)
    parser.add_argument("--max-dollars", type=amount, metavar="X", help=budget)
    parser.add_argument(
        "--price", type=amount, nargs=2, metavar=("IN", "OUT"), help="dollars per million tokens, if LiteLLM has none"
    )
