from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.commands.arguments import add_json, amount, ledger
from pipeline.commands.output import Output

HELP = "What a ledger of calls holds and has cost; its replies to a file and into another ledger; old replies out."
EXAMPLES = """\
examples:
  gpa-judges ledger stats runs/evaluate-1a2b3c4d/ledger.sqlite
  gpa-judges ledger export runs/evaluate-1a2b3c4d/ledger.sqlite replies.jsonl
  gpa-judges ledger import replies.jsonl postgresql://me@db.example/calls
  gpa-judges ledger prune postgresql://me@db.example/calls --older-than 90          (counts; --yes removes)

A ledger is a file, or a PostgreSQL database by URL, without a password: that comes from PGPASSWORD, ~/.pgpass or a
service file. What is imported answers calls and is charged to no run; what the ledger holds already stays. Pruning
leaves what runs have spent, so their budgets hold; calls that are in flight stay.
"""


_LEGEND = "of kept replies: tokens (prompt, of it cached; output, of it reasoning) and dollars"
_ACCOUNT = (
    "of the account: requests sent, those without a reply, dollars spent, of them assumed for cost that is not known"
)


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    stats = actions.add_parser("stats", help="runs, models, tokens, dollars, calls in flight, size")
    export = actions.add_parser("export", help="write all replies to a file (JSON Lines)")
    take = actions.add_parser("import", help="read such a file into a ledger, which is made if it is not there")
    prune = actions.add_parser("prune", help="remove replies; without --yes: count them")
    take.add_argument("file", type=Path, metavar="FILE", help="what `ledger export` wrote")
    for action in (stats, export, take, prune):
        action.add_argument("place", type=ledger, metavar="LEDGER", help="a file or postgresql://USER@HOST/DATABASE")
        add_json(action, argparse.SUPPRESS)
    export.add_argument("file", type=Path, metavar="FILE", help="the file to write")
    export.add_argument("--force", action="store_true", help="write over another file")
    prune.add_argument("--older-than", type=amount, metavar="DAYS", help="that came earlier")
    prune.add_argument("--model", metavar="NAME", help="of this model")
    prune.add_argument("--run", dest="of_run", metavar="NAME", help="that this run paid for (`ledger stats` names it)")
    prune.add_argument("--failed", action="store_true", help="that were cut off, refused or damaged: to be asked again")
    prune.add_argument("--yes", action="store_true", help="remove them")


def run(args: argparse.Namespace, out: Output) -> int:
    action = {"stats": _stats, "export": _export, "import": _import, "prune": _prune}[args.step]
    action(args, out)
    return 0


def _stats(args: argparse.Namespace, out: Output) -> None:
    from judges.ledger.upkeep import stats
    from pipeline.report.table import columns

    found = stats(args.place)
    now = time.time()
    head = ["", "replies", "prompt", "cached", "output", "reasoning", "dollars"]
    rows = [[*head, "requests", "failed", "spent dollars", "assumed"]]
    for name, sums in found["runs"].items():
        paid = sums.get("account", {"calls": 0, "failed": 0, "dollars": 0.0, "assumed": 0.0})
        known = sums["dollars"] is not None
        spent = [f"{paid[name]:.4f}" if known else "unknown" for name in ("dollars", "assumed")]
        rows.append([name, *_sums(sums), f"{paid['calls']:,}", f"{paid['failed']:,}", *spent])
    models = [head, *([name, *_sums(sums)] for name, sums in found["models"].items())]
    lines = [f"{found['ledger']}: {found['replies']:,} replies, {found['bytes'] / 1e6:.1f} MB"]
    if found["newest"] is not None:
        lines[0] += f", from {_age(now - found['oldest'])} to {_age(now - found['newest'])} ago"
    pending = found["pending"]
    if pending["calls"]:
        lines.append(
            f"in flight: {pending['calls']:,} calls, {pending['alive']:,} of them by workers that may be alive; "
            f"the oldest since {_age(pending['age'])}"
        )
    tables = [f"by run\n{columns(rows)}\n{_ACCOUNT}", f"by model\n{columns(models)}\n{_LEGEND}"]
    out.result("\n\n".join(["\n".join(lines), *(tables if found["runs"] else [])]), found)


def _export(args: argparse.Namespace, out: Output) -> None:
    from judges.ledger.transfer import export
    from pipeline.config import PipelineError

    if args.file.exists() and not args.force:
        raise PipelineError(f"{args.file} is there: accepted is a new name, or --force")
    count = export(args.place, args.file)
    out.result(f"{count:,} replies: {args.file}", {"replies": count, "file": str(args.file)})


def _import(args: argparse.Namespace, out: Output) -> None:
    from judges.ledger.transfer import import_replies

    done = import_replies(args.file, args.place)
    text = f"{done.new:,} new replies in {args.place}, charged to no run; {done.known:,} calls were there and stay"
    out.result(text, {"new": done.new, "known": done.known, "ledger": str(args.place)})


def _prune(args: argparse.Namespace, out: Output) -> None:
    from judges.ledger.upkeep import Choice, prune, stats
    from pipeline.config import PipelineError

    choice = Choice(args.older_than, args.model, args.of_run, args.failed)
    if choice == Choice():
        raise PipelineError("which replies? accepted are --older-than DAYS, --model, --run and --failed")
    known = stats(args.place) if args.of_run or args.model else {}
    for option, kind, given in (("--run", "runs", args.of_run), ("--model", "models", args.model)):
        if given and given not in known[kind]:
            there = ", ".join(known[kind]) or "none"
            raise PipelineError(f"{option} {given}: {args.place} holds nothing of it: accepted are its {kind}, {there}")
    count, size = prune(args.place, choice, args.yes)
    did = "removed" if args.yes else "would be removed (--yes removes them)"
    text = f"{count:,} replies, {size / 1e6:.1f} MB of text, {did}; what was spent stays spent"
    out.result(text, {"replies": count, "bytes": size, "removed": args.yes})


def _age(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0.0, seconds):.0f} seconds"


def _sums(sums: Mapping[str, Any]) -> list[str]:
    names = ("replies", "prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")
    dollars = "unknown" if sums["dollars"] is None else f"{sums['dollars']:.4f}"
    return [*(f"{sums[name]:,}" for name in names), dollars]
