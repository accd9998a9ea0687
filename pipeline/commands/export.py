from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands.output import Output
from pipeline.terminal import counted

if TYPE_CHECKING:
    from pipeline.export.run_export import TunedRun

HELP = "Ship a run's tuned judges: to MLflow, as scorers and prompts, or to a folder."
EXAMPLES = """\
examples:
  gpa-judges export runs/support-agent-1a2b3c4d --to mlflow --tracking-uri http://127.0.0.1:5000
  gpa-judges export runs/demo-1a2b3c4d --to mlflow --model openai/gpt-5
  gpa-judges export runs/support-agent-1a2b3c4d --to folder --out judges-of-may

Every judge becomes a scorer and a version of a prompt, <prefix><dimension>, linked by tags. After a PASS of exactly
these judges (layout `mlflow`, the same model) they get the alias `champion` and the live scorer's name; else the alias
`challenger` and a scorer <prefix><dimension>_challenger. The same judges again make no new version, and do not become
champions again where a promotion or a rollback has replaced them since. A run that was not validated, did not pass or
changed nothing is exported too, and the output says so.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="the folder that optimize or demo made")
    parser.add_argument("--to", choices=("mlflow", "folder"), required=True, help="where to")
    parser.add_argument("--tracking-uri", metavar="URI", help="the MLflow to export to (the run's own)")
    parser.add_argument("--experiment", metavar="NAME", help="the MLflow experiment of the scorers (the run's own)")
    parser.add_argument("--name-prefix", metavar="TEXT", help="begins every name in MLflow (gpa_)")
    parser.add_argument("--model", metavar="NAME", help="the LiteLLM model to run with (the one tuned with)")
    parser.add_argument("--endpoint", metavar="URL", help="its base URL (the one tuned with)")
    parser.add_argument(
        "--again", action="store_true", default=None, help="make champions again of judges that were replaced since"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write (RUN/export)")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.config import PipelineError
    from pipeline.export.run_export import TunedRun

    for_mlflow = ("tracking_uri", "experiment", "name_prefix", "model", "endpoint", "again")
    wrong = [name for name in (("out",) if args.to == "mlflow" else for_mlflow) if getattr(args, name) is not None]
    if wrong:
        raise PipelineError(f"--{wrong[0].replace('_', '-')} does not belong to --to {args.to}")
    tuned = TunedRun.open(args.run_dir)
    (_to_mlflow if args.to == "mlflow" else _to_folder)(tuned, args, out)
    return 0


def _to_folder(tuned: TunedRun, args: argparse.Namespace, out: Output) -> None:
    from pipeline.export.folder import export_to_folder

    folder = args.out or tuned.folder["export"]
    manifest = export_to_folder(tuned, folder)
    lines = [
        f"{counted(len(manifest['judges']), 'judge')}: {folder}",
        f"Verdict: {tuned.verdict or 'none'}",
        *tuned.cautions,
    ]
    following = [f"gpa-judges evaluate DATA --judges {shlex.quote(str(folder))}"]
    if not tuned.verdict and not tuned.unchanged:
        following.insert(0, _validate(args.run_dir))
    out.result(_page("\n".join(lines), following), {"to": "folder", "folder": str(folder), **manifest})


def _to_mlflow(tuned: TunedRun, args: argparse.Namespace, out: Output) -> None:
    from pipeline.export.registry import CHAMPION, PREFIX
    from pipeline.export.run_export import Target, export_to_mlflow
    from pipeline.export.scorer import READS
    from pipeline.report.table import columns

    prefix = args.name_prefix or PREFIX
    target = Target(args.tracking_uri, args.experiment, prefix, args.model, args.endpoint, bool(args.again))
    done = export_to_mlflow(tuned, target, out.say)
    rows = [["dimension", "prompt", "scorer", "version"]]
    rows += [[name, j.uri, j.scorer, str(j.scorer_version)] for name, j in done.judges.items()]
    head = f"Alias {done.alias} in experiment {done.experiment} of MLflow at {done.uri}"
    verdict = f"Verdict of exactly these judges: {done.verdict or 'none'}"
    if done.alias == CHAMPION:
        where = f"--tracking-uri {shlex.quote(done.uri)} --judges {shlex.quote(done.experiment)}"
        named = "" if prefix == PREFIX else f" --name-prefix {shlex.quote(prefix)}"
        following = [
            f"gpa-judges score EXPERIMENT_WITH_TRACES {where}{named}",
            "gpa-judges recalibrate CONFIG.yaml    when people have labelled traces (see its --help)",
        ]
    else:
        head += "; score and recalibrate run champions, which need a PASS"
        following = [] if tuned.verdict or tuned.unchanged else [f"{_validate(args.run_dir)}    then export again"]
    about = "\n".join([head, verdict, *done.notes])
    out.result(_page(f"{columns(rows)}\n\n{about}\n\n{READS}", following), done.to_json())


def _validate(run_dir: Path) -> str:
    return f"gpa-judges validate {shlex.quote(str(run_dir))}"


def _page(text: str, following: Sequence[str]) -> str:
    return "\n".join([text, *(["", "Next:", *(f"  {line}" for line in following)] if following else [])])
