from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands.arguments import add_consent, amount, count
from pipeline.commands.output import Output
from pipeline.hints import command

if TYPE_CHECKING:
    from pipeline.results import Result

HELP = "Prove a tuned run on its testset: PASS, FAIL or INCONCLUSIVE, with a table and a report."
EXAMPLES = """\
examples:
  gpa-judges validate runs/support-agent-1a2b3c4d
  gpa-judges validate runs/support-agent-1a2b3c4d --json | jq .verdict
  gpa-judges validate runs/support-agent-1a2b3c4d --max-dollars 30      a larger budget than the experiment's

Generic, tuned and holistic judges and three controls read the held-out traces with fresh repeats. If tuning changed
nothing, nothing is read.

Each use of a testset is recorded, in the run's folder and in `test_uses.jsonl` beside the data (simulated data: in the
output folder), and counted over all runs on data that shares a held-out trace. The same proof again is the same use;
with another gate, judge, rule, matcher or number of repeats it is a further one, and the result says which. A use on a
copy of the data in another folder, by a run in another folder, cannot be counted.

exit codes: 0 PASS; 1 FAIL; 5 INCONCLUSIVE
"""
CAPS = {"calls": count, "tokens": count, "dollars": amount}
CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 5}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="the folder that optimize or demo made")
    for unit, kind in CAPS.items():
        said = f"cap on the {unit} of the whole run, tuning included (the experiment's)"
        parser.add_argument(f"--max-{unit}", type=kind, metavar="N", help=said)
    add_consent(parser, "the experiment's ask_above")


def run(args: argparse.Namespace, out: Output) -> int:
    from judges.lm import BudgetExhausted
    from pipeline.report.table import result_table
    from pipeline.run import REPORT, validate_run

    caps = {unit: cap for unit in CAPS if (cap := getattr(args, f"max_{unit}")) is not None}
    try:
        result = validate_run(args.run_dir, out.say, caps, args.ask_above, args.yes)
    except BudgetExhausted as stop:
        options = ", ".join(f"--max-{unit}" for unit in CAPS)
        raise BudgetExhausted(f"{stop}; here a cap of the run is raised by {options}") from stop
    parts = [result_table(result), f"report: {result.run_dir / REPORT}", _next_steps(result)]
    out.result("\n\n".join(parts), result.to_json())
    return CODES[result.verdict]


def _next_steps(result: Result) -> str:
    run, champions = result.run_dir, result.names["seed"]
    # MLflow cannot run a simulated model.
    to = "folder" if result.simulated else "mlflow"
    return {
        "PASS": f"Next, to ship them:\n  {command('export', run, '--to', to)}",
        "FAIL": f"Next: keep the {champions}; `gpa-judges optimize` with other steps or settings, and a new testset",
    }.get(result.verdict, f"Next: keep the {champions} until it is decided: more labelled traces, then optimize anew")
