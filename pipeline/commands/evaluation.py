"""The options that select an evaluation: the same for the command that makes its calls and for batches of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands.arguments import add_calls, count, ledger, whole

if TYPE_CHECKING:
    from pipeline.measure import Measurement

PARTS = {"train": ("trainset",), "val": ("valset",), "test": ("testset",), "dev": ("trainset", "valset")}
_KNOBS = ("model", "endpoint", "trace_tokens")


def add_evaluation(
    parser: argparse.ArgumentParser, *, results: tuple[str, ...] = ("--results", "--out"), sent: bool = True
) -> None:
    """`results`: the names of the option for the folder of judgments, metrics and ledger. `sent`: see `add_calls`."""
    parser.add_argument("data", type=Path, metavar="DATA", help="a file that `gpa-judges import` wrote")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--judges", type=Path, metavar="DIR", help="judge programs, an exported folder, or a tuned run")
    which.add_argument("--holistic", action="store_true", help="the one judge for all dimensions instead of the seven")
    parser.add_argument(
        "--model", metavar="NAME", help="a LiteLLM model name, or simulated/default to try it out (that of --judges)"
    )
    parser.add_argument("--endpoint", "--api-base", metavar="URL", help="base URL of an OpenAI-compatible server")
    parser.add_argument(
        "--trace-tokens",
        type=whole(256, 10_000_000),
        metavar="N",
        help="shorten traces to about so many tokens each (24000, or as the judges say)",
    )
    parser.add_argument("--repeats", type=count, default=1, metavar="N", help="readings of every trace (1)")
    parser.add_argument("--split", type=Path, metavar="FILE", help="a manifest that `gpa-judges split` wrote")
    parser.add_argument("--part", choices=tuple(PARTS), help="the part of the split to read (all)")
    parser.add_argument(
        "--matcher", default="span", metavar="NAME", help="what counts as found: span (default) or text"
    )
    parser.add_argument(
        *results,
        dest="results",
        type=Path,
        metavar="DIR",
        help="folder of judgments and metrics (runs/evaluate-<hash>)",
    )
    parser.add_argument(
        "--ledger",
        type=ledger,
        metavar="PLACE",
        help="where calls are kept; several folders that name one share its replies (more repeats, other options): a "
        "file, or postgresql://USER@HOST/DB",
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write over another evaluation in that folder; what was paid stays in its ledger and is used again",
    )
    add_calls(parser, sent=sent)


def same_options(args: argparse.Namespace) -> list[str]:
    """DATA and the options that were given, for the next command line."""
    parser = argparse.ArgumentParser()
    add_evaluation(parser)
    words = [str(args.data)]
    for name, usual in vars(parser.parse_args(words)).items():
        given = getattr(args, name)
        if given != usual and name != "data":
            words.append(f"--{name.replace('_', '-')}")
            words += [] if given is True else map(str, given if isinstance(given, list) else [given])
    return words


def measurement(args: argparse.Namespace, progress: str) -> Measurement:
    """The evaluation that the options select; `progress` names its bar.

    Raises:
        PipelineError: no model is named, or a price without a model.
    """
    from judges.ledger.budget import Budget, Price
    from judges.models.limits import Limits
    from pipeline.config import MODELS, PipelineError
    from pipeline.evaluate import EvaluateSettings
    from pipeline.measure import Measurement

    if args.price and not args.model:
        raise PipelineError("--price belongs to --model: accepted are both")
    if args.model is None and args.judges is None:
        raise PipelineError(f"--model NAME is needed: {MODELS}; or --judges DIR, whose judges name their model")
    return Measurement(
        data=args.data,
        judges=args.judges,
        holistic=args.holistic,
        knobs={name: getattr(args, name) for name in _KNOBS if getattr(args, name) is not None},
        split=args.split,
        parts=PARTS.get(args.part or "", ()),
        matcher=args.matcher,
        settings=EvaluateSettings(
            repeats=args.repeats, concurrency=args.concurrency, seed=args.seed, progress=progress
        ),
        timeout=args.timeout,
        limits=Limits(args.rpm, args.tpm),
        budget=Budget(calls=args.max_calls, tokens=args.max_tokens, dollars=args.max_dollars),
        prices={args.model: Price(*args.price)} if args.price else {},
        out=args.results,
        force=args.force,
        ledger=args.ledger,
    )
