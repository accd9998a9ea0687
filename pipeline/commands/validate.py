from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import Output

HELP = "Prove a tuned run on its testset: PASS, FAIL or INCONCLUSIVE, with a table and a report."
EXAMPLES = """\
examples:
  gpa-judges validate runs/support-agent-1a2b3c4d
  gpa-judges validate runs/support-agent-1a2b3c4d --json | jq .verdict

Generic, tuned and holistic judges and three controls read the held-out traces with fresh repeats. Each use of a testset
is recorded; one that was used before is spent, and the result says so.

exit codes: 0 PASS; 1 FAIL; 5 INCONCLUSIVE
"""
CODES = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 5}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="the folder that optimize or demo made")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.report.table import result_table
    from pipeline.run import REPORT, validate_run

    result = validate_run(args.run_dir, out.say)
    out.result(f"{result_table(result)}\n\nreport: {result.run_dir / REPORT}", result.to_json())
    return CODES[result.verdict]
