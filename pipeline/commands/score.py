from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.arguments import add_calls, count
from pipeline.commands.output import Output
from pipeline.terminal import counted

HELP = "Score the traces of an MLflow experiment with its champions. What is scored already is not scored again."
EXAMPLES = """\
examples:
  gpa-judges score support-agent --tracking-uri http://127.0.0.1:5000 --max-dollars 5
  gpa-judges score support-agent --tracking-uri http://127.0.0.1:5000 --judges gpa-judges --newest 200
  gpa-judges score support-agent --tracking-uri sqlite:///mlflow.db --filter "trace.status = 'OK'"

Each judge's score is a feedback <prefix><dimension> of the trace, "0" to "3" or "not_applicable", each finding a
feedback <prefix><dimension>_finding at its span. What people said about a trace never reaches a judge. A reply that
cannot be used is logged as an error without a value; a call that failed is made again the next time.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="EXPERIMENT_NAME", help="the MLflow experiment that holds the traces")
    parser.add_argument("--tracking-uri", required=True, metavar="URI", help="the MLflow that holds it")
    parser.add_argument("--judges", metavar="NAME", help="the experiment that the champions are in (the same)")
    parser.add_argument("--name-prefix", default="gpa_", metavar="TEXT", help="begins the judges' names (gpa_)")
    parser.add_argument("--filter", metavar="TEXT", help="only traces that this filter of MLflow's lets through")
    parser.add_argument("--newest", type=count, metavar="N", help="only the newest N traces")
    parser.add_argument("--out", type=Path, default=Path("runs/score"), metavar="DIR", help="the ledger (runs/score)")
    add_calls(parser, "budget of one day (UTC)")


def run(args: argparse.Namespace, out: Output) -> int:
    from judges.ledger.budget import Budget, Price
    from judges.models.limits import Limits
    from pipeline.evaluate import EvaluateSettings
    from pipeline.read_warnings import warnings_in_words
    from pipeline.report.table import columns, money
    from pipeline.score import Scoring, score

    work = Scoring(
        uri=args.tracking_uri,
        experiment=args.experiment,
        judges=args.judges,
        prefix=args.name_prefix,
        filter_string=args.filter,
        newest=args.newest,
        budget=Budget(calls=args.max_calls, tokens=args.max_tokens, dollars=args.max_dollars),
        price=Price(*args.price) if args.price else None,
        timeout=args.timeout,
        limits=Limits(args.rpm, args.tpm),
        settings=EvaluateSettings(concurrency=args.concurrency, seed=args.seed, progress="score"),
        out=args.out,
    )
    done = score(work, out.say)
    rows = [["dimension", "champion", "program", "model"]]
    rows += [[name, j.uri, j.program.hash, j.program.knobs.model] for name, j in done.champions.items()]
    outcomes = ", ".join(f"{number} {name}" for name, number in done.outcomes.items()) or "none"
    dollars = money(done.cost, done.simulated, done.usage.doubt)
    cost = f"{counted(done.usage.calls, 'call')}, {done.usage.tokens:,} tokens, {dollars}"
    lines = [
        f"{done.new} of {done.traces} traces were new: {counted(done.scores, 'score')} and "
        f"{counted(done.findings, 'finding')} logged",
        f"Judgments: {outcomes}",
        *(
            [f"WARNING, replies that were repaired in reading: {warnings_in_words(done.warnings)}"]
            if done.warnings
            else []
        ),
        f"Cost of today (UTC): {cost}",
        *(f"not readable: {reason}" for reason in done.unreadable),
        "Next: people label what they see there (see README, human labels), then `gpa-judges recalibrate CONFIG`",
    ]
    out.result("\n\n".join([columns(rows), "\n".join(lines)]), done.to_json())
    return 0
