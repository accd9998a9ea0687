from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import Output, save_new

HELP = "Have re-calibration run by the clock: a crontab line, a GitHub workflow, or a loop in the foreground."
EXAMPLES = """\
examples:
  gpa-judges schedule recalibration.yaml --cron "0 6 * * 1" --target cron          prints a line for crontab -e
  gpa-judges schedule recalibration.yaml --cron "0 6 * * 1" --target github-actions \\
      --out .github/workflows/recalibrate.yml                                       times are UTC there
  gpa-judges schedule recalibration.yaml --cron "0 6 * * 1" --target run           runs until it is interrupted

Passes never overlap: a lock in the state folder sees to that.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, metavar="CONFIG.yaml", help="the file of `gpa-judges recalibrate`")
    parser.add_argument("--cron", required=True, metavar='"M H D M W"', help='when: five fields, as in "0 6 * * 1"')
    parser.add_argument("--target", choices=("cron", "github-actions", "run"), required=True, help="who runs it")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the workflow there instead of printing it")
    parser.add_argument("--force", action="store_true", help="write over another file that is there")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.config import PipelineError
    from pipeline.recalibration.config import load_recalibration
    from pipeline.schedule import crontab_line, needs, parse_cron, run_forever, workflow

    due = parse_cron(args.cron)
    config = load_recalibration(args.config)
    if args.out is not None and args.target != "github-actions":
        raise PipelineError("--out belongs to --target github-actions")
    if args.target == "run":
        out.say(f"waiting for {args.cron!r} (local time); Ctrl-C ends it")
        run_forever(due, args.config.absolute(), out.say)
    if args.target == "cron":
        text = crontab_line(args.cron, args.config.absolute(), config.state / "recalibrate.log")
        config.state.mkdir(parents=True, exist_ok=True)
    else:
        here = Path.cwd()
        paths = (args.config.absolute(), config.state)
        if not all(path.is_relative_to(here) for path in paths):
            raise PipelineError(f"{args.config} and its state folder lie outside {here}: start this in the repository")
        text = workflow(args.cron, *(path.relative_to(here) for path in paths))
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        save_new(args.out, lambda path: path.write_text(text, encoding="utf-8"), force=args.force)
    shown = f"written: {args.out}" if args.out is not None else text.rstrip("\n")
    out.result(shown, {"target": args.target, "cron": args.cron, "text": text, "file": args.out and str(args.out)})
    for line in needs(args.target, config.mlflow.uri):
        out.say(line)
    return 0
