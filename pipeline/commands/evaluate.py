from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.arguments import add_calls, count
from pipeline.commands.output import Output
from pipeline.hints import command

HELP = "Measure judges on labelled traces: coverage, localization, precision, false alarms, agreement, consistency."
EXAMPLES = """\
examples:
  gpa-judges evaluate data.jsonl --model openai/gpt-5 --repeats 3 --max-dollars 5
  gpa-judges evaluate data.jsonl --model openai/local --endpoint http://127.0.0.1:8000/v1 --concurrency 1
  gpa-judges evaluate data.jsonl --judges runs/demo-1a2b3c4d          (its tuned judges)
  gpa-judges evaluate data.jsonl --split split.json --part val --holistic

A split's testset in what is read (--part test, or --split without --part) is a use of it, and so are traces that were
read as a testset before: it is recorded in `test_uses.jsonl` beside DATA, and counted with all others of these traces.
Without --judges: the generic judges as shipped. Keys are read from the environment (OPENAI_API_KEY ...).
"""
PARTS = {"train": ("trainset",), "val": ("valset",), "test": ("testset",), "dev": ("trainset", "valset")}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="a file that `gpa-judges import` wrote")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--judges", type=Path, metavar="DIR", help="judge programs, an exported folder, or a tuned run")
    which.add_argument("--holistic", action="store_true", help="the one judge for all dimensions instead of the seven")
    parser.add_argument(
        "--model", metavar="NAME", help="a LiteLLM model name, or simulated/default to try it out (that of --judges)"
    )
    parser.add_argument("--endpoint", metavar="URL", help="base URL of an OpenAI-compatible server")
    parser.add_argument("--repeats", type=count, default=1, metavar="N", help="readings of every trace (1)")
    parser.add_argument("--split", type=Path, metavar="FILE", help="a manifest that `gpa-judges split` wrote")
    parser.add_argument("--part", choices=tuple(PARTS), help="the part of the split to read (all)")
    parser.add_argument(
        "--matcher", default="span", metavar="NAME", help="what counts as found: span (default) or text"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where judgments and metrics go (runs/evaluate-<hash>)")
    parser.add_argument("--force", action="store_true", help="write over another evaluation in that folder")
    add_calls(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from judges.ledger.budget import Budget, Price
    from pipeline.config import MODELS, PipelineError
    from pipeline.evaluate import EvaluateSettings
    from pipeline.measure import Measurement, measure
    from pipeline.read_warnings import warnings_in_words
    from pipeline.report.table import MEASURED, metrics_table, money, reader
    from pipeline.results import counted_labels

    if args.price and not args.model:
        raise PipelineError("--price belongs to --model: accepted are both")
    if args.model is None and args.judges is None:
        raise PipelineError(f"--model NAME is needed: {MODELS}; or --judges DIR, whose judges name their model")
    work = Measurement(
        data=args.data,
        judges=args.judges,
        holistic=args.holistic,
        knobs={name: getattr(args, name) for name in ("model", "endpoint") if getattr(args, name) is not None},
        split=args.split,
        parts=PARTS.get(args.part or "", ()),
        matcher=args.matcher,
        settings=EvaluateSettings(
            repeats=args.repeats, concurrency=args.concurrency, seed=args.seed, progress="evaluate"
        ),
        timeout=args.timeout,
        budget=Budget(calls=args.max_calls, dollars=args.max_dollars),
        prices={args.model: Price(*args.price)} if args.price else {},
        out=args.out,
        force=args.force,
    )
    found = measure(work, out.say)
    labels = counted_labels(found.labels, found.outside_gpa)
    parts = [f"{found.traces} traces, {labels},\nread by {reader(found.model, found.simulated)}"]
    parts.append(metrics_table(found.metrics, MEASURED))
    outcomes = ", ".join(f"{count} {name}" for name, count in found.outcomes.items())
    cost = money(found.cost, found.simulated)
    lines = [f"Judgments: {outcomes}"]
    if found.warnings:
        lines.append(f"WARNING, replies that were repaired in reading: {warnings_in_words(found.warnings)}")
    lines += [f"Cost: {found.usage.calls:,} calls, {found.usage.tokens:,} tokens, {cost}"]
    if found.test_uses > 1:
        lines.append(f"use {found.test_uses} of this testset: the more uses, the less it says; trust a new one more")
    lines.append(f"judgments: {found.judgments}")
    parts += ["\n".join(lines), _next_steps(args)]
    out.result("\n\n".join(parts), found.to_json())
    return 0


def _next_steps(args: argparse.Namespace) -> str:
    lines = ["Next, to tune them (the smallest experiment file: gpa-judges optimize --help):"]
    if args.split is None:
        lines.append(f"  {command('split', args.data, '--out', 'split.json')}")
    return "\n".join([*lines, f"  {command('optimize', 'experiment.yaml')}"])
