from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import Output

HELP = "One pass: new human labels, champion measured, re-tuned if it drifted, gate, promoted or kept. Idempotent."
EXAMPLES = """\
examples:
  gpa-judges recalibrate recalibration.yaml
  gpa-judges recalibrate recalibration.yaml --json | jq .decision

The smallest file; relative paths in it are relative to it, what is not given has a default:
  mlflow: {uri: "http://127.0.0.1:5000", experiment: support-agent, judges: gpa-judges}
  search: {reflection_model: openai/gpt-5}
  budget: {dollars: 20}
Every key with its default: experiments/recalibration.yaml of the project.

Decisions: nothing new; needs labels; baseline (it was not known how good the champion was); fine; kept (it drifted, no
challenger passed); promoted; given up (it could never have ended). Each but the first two is recorded as a run in
MLflow. A pass that was stopped is ended by the next one as it was begun, or by `gpa-judges rollback`. The exit code is
0 whatever the decision, and 2 if another pass is running.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG.yaml", help="what a pass does")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.recalibration.config import load_recalibration
    from pipeline.recalibration.passes import recalibrate
    from pipeline.recalibration.report import pass_table

    done = recalibrate(load_recalibration(args.config), out.say)
    out.result(pass_table(done, args.config), done.to_json())
    return 0
