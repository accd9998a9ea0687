from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import Output

HELP = "The champions that the last promotion replaced come back; the way back is recorded in MLflow."
EXAMPLES = """\
examples:
  gpa-judges rollback recalibration.yaml

Called again, it goes one promotion further back. A rollback that was stopped is ended by the next call. A pass that
was stopped is ended first, without a decision, so that it does not promote again; if it had promoted nothing, that is
all, and the champions stay.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG.yaml", help="the file of `gpa-judges recalibrate`")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.recalibration.config import load_recalibration
    from pipeline.recalibration.report import pass_table
    from pipeline.recalibration.rollback import rollback

    done = rollback(load_recalibration(args.config), out.say)
    out.result(pass_table(done, args.config), done.to_json())
    return 0
