from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from pipeline.commands.arguments import add_consent
from pipeline.commands.evaluation import add_evaluation, measurement
from pipeline.commands.output import Output
from pipeline.hints import command
from pipeline.terminal import counted

HELP = "Measure judges on labelled traces: coverage, localization, precision, false alarms, agreement, consistency."
EXAMPLES = """\
examples:
  gpa-judges evaluate data.jsonl --model openai/gpt-5 --repeats 3 --max-dollars 5
  gpa-judges evaluate data.jsonl --model openai/local --endpoint http://127.0.0.1:8000/v1 --concurrency 1
  gpa-judges evaluate data.jsonl --model openai/mine --endpoint https://llm.example/v1 --price 0.25 2 0.025
  gpa-judges evaluate data.jsonl --judges runs/demo-1a2b3c4d          (its tuned judges)
  gpa-judges evaluate data.jsonl --split split.json --part val --holistic
  gpa-judges evaluate data.jsonl --model openai/gpt-5 --ledger postgresql://me@db.example/calls   (of several hosts)
  gpa-judges evaluate data.jsonl --model openai/gpt-5 --replay                        (the same again, without a call)

A split's testset in what is read (--part test, or --split without --part) is a use of it, and so are traces that were
read as a testset before: it is recorded in `test_uses.jsonl` beside DATA, and counted with all others of these traces.
The expected cost is said before the first paid call, from what is not in the results' ledger yet; what is expected to
cost more than --ask-above is asked about, and without a terminal needs --yes or --max-dollars.
Without --judges: the generic judges as shipped. Keys are read from the environment (OPENAI_API_KEY ...).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_evaluation(parser)
    add_consent(parser, "10")
    parser.add_argument("--replay", action="store_true", help="make no call: answer from the ledger alone, or fail")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.consent import Consent
    from pipeline.measure import measure
    from pipeline.read_warnings import warnings_in_words
    from pipeline.report.table import MEASURED, metrics_table, money, reader
    from pipeline.results import counted_labels

    consent = Consent(Consent.above if args.ask_above is None else args.ask_above, args.yes)
    found = measure(replace(measurement(args, "evaluate"), consent=consent, replay=args.replay), out.say)
    labels = counted_labels(found.labels, found.outside_gpa)
    parts = [f"{counted(found.traces, 'trace')}, {labels},\nread by {reader(found.model, found.simulated)}"]
    parts.append(metrics_table(found.metrics, MEASURED))
    outcomes = ", ".join(f"{count} {name}" for name, count in found.outcomes.items())
    cached = f" ({found.cached:.0%} of the prompts' from the provider's cache)" if found.cached else ""
    cost = money(found.cost, found.simulated, found.usage.doubt)
    lines = [f"Judgments: {outcomes}"]
    if found.warnings:
        lines.append(f"WARNING, replies that were repaired in reading: {warnings_in_words(found.warnings)}")
    lines += [f"Cost: {counted(found.usage.calls, 'call')}, {found.usage.tokens:,} tokens{cached}, {cost}"]
    if found.test_uses > 1:
        lines.append(f"use {found.test_uses} of this testset: the more uses, the less it says; trust a new one more")
    lines.append(f"judgments: {found.judgments}")
    parts += ["\n".join(lines), _next_steps(args, found.outcomes)]
    out.result("\n\n".join(parts), found.to_json())
    return 0


def _next_steps(args: argparse.Namespace, outcomes: Mapping[str, int]) -> str:
    return "\n".join([*_unmade(outcomes), *_to_tune(args)])


def _unmade(outcomes: Mapping[str, int]) -> list[str]:
    """What to do first, where judgments are missing."""
    from pipeline.evaluate import FAILED, SHORTEN

    lines = []
    if missing := {name: outcomes[name] for name in map(str, FAILED) if outcomes.get(name)}:
        unmade = sum(missing.values())
        said = "1 judgment was" if unmade == 1 else f"{unmade:,} judgments were"
        names = ", ".join(missing)
        lines.append(f"{said} not made ({names}): start the same command again, it asks only for these")
    if count := outcomes.get("too_long"):
        lines.append(f"Too long for the model (too_long), {count:,} x: {SHORTEN}")
    return [*lines, ""] if lines else []


def _to_tune(args: argparse.Namespace) -> list[str]:
    lines = ["Next, to tune them (the smallest experiment file: gpa-judges optimize --help):"]
    if args.split is None:
        lines.append(f"  {command('split', args.data, '--out', 'split.json')}")
    return [*lines, f"  {command('optimize', 'experiment.yaml')}"]
