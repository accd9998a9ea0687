"""Kinds of argument values; what they refuse is told by argparse, with exit code 2."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any


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


def seconds(text: str) -> float:
    """A number above 0."""
    if not (number := amount(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not accepted: a number of seconds above 0 is")
    return number


def ledger(text: str) -> Path | str:
    """A path, or the URL of a database."""
    from judges.ledger.place import check_folder, place_of
    from judges.lm import JudgeError

    try:
        place = place_of(text)
        check_folder(place)
        return place
    except JudgeError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_json(parser: argparse.ArgumentParser, default: Any = False) -> None:
    """`default`: argparse.SUPPRESS for a step of a command, which must not take back what stood before it."""
    said = "print one JSON document on stdout, all else on stderr"
    parser.add_argument("--json", action="store_true", default=default, help=said)


def add_calls(parser: argparse.ArgumentParser, budget: str = "budget", *, sent: bool = True) -> None:
    """How calls are made and what they may cost; `budget` says what the caps hold for. `sent`: this command sends them;
    one that does not takes the same options, so that its command line may be that of the one that does."""

    def said(text: str) -> str:
        return text if sent else argparse.SUPPRESS

    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the calls (0)")
    parser.add_argument("--concurrency", type=count, default=8, metavar="N", help=said("judgments in flight (8)"))
    parser.add_argument("--timeout", type=seconds, default=60.0, metavar="SECONDS", help=said("for each attempt (60)"))
    parser.add_argument("--rpm", type=count, metavar="N", help=said("requests a minute at most, of each model"))
    parser.add_argument("--tpm", type=count, metavar="N", help=said("tokens a minute at most, of prompts and replies"))
    parser.add_argument("--max-calls", type=count, metavar="N", help=budget)
    parser.add_argument("--max-tokens", type=count, metavar="N", help=f"{budget}, of prompts and replies together")
    parser.add_argument("--max-dollars", type=amount, metavar="X", help=budget)
    add_price(parser)


def add_price(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--price",
        type=amount,
        nargs="+",
        action=_Price,
        metavar=("IN OUT", "CACHED"),
        help="dollars per million tokens, if LiteLLM has none; CACHED: of input that the provider's cache serves (IN)",
    )


def add_consent(parser: argparse.ArgumentParser, default: str, *, capped: bool = True) -> None:
    """Whether a large cost is asked about; `default` names the limit where none is given. `capped`: the command also
    takes a cap in dollars."""
    parser.add_argument(
        "--ask-above",
        type=amount,
        metavar="DOLLARS",
        help=f"ask before more is spent than this ({default}){'; not with a cap in dollars' if capped else ''}",
    )
    parser.add_argument("--yes", action="store_true", help="agree to the expected cost")


class _Price(argparse.Action):
    """Two or three numbers."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: Any, __: object = None) -> None:
        if not 2 <= len(values) <= 3:
            raise argparse.ArgumentError(self, f"accepted are 2 or 3 numbers (IN OUT [CACHED]), given: {len(values)}")
        setattr(namespace, self.dest, values)
