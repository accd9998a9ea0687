from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import Output

HELP = "Ship a run's tuned judges: to MLflow, as scorers and prompts, or to a folder."
EXAMPLES = """\
examples:
  gpa-judges export runs/support-agent-1a2b3c4d --to mlflow --tracking-uri http://127.0.0.1:5000
  gpa-judges export runs/demo-1a2b3c4d --to mlflow --model openai/gpt-5
  gpa-judges export runs/support-agent-1a2b3c4d --to folder --out judges-of-may

Every judge becomes a scorer and a version of a prompt, <prefix><dimension>, linked by tags. After a PASS of exactly
these judges (layout `mlflow`, the same model) they get the alias `champion` and the live scorer's name; else the alias
`challenger` and a scorer <prefix><dimension>_challenger. The same judges again make no new version.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", type=Path, metavar="RUN", help="the folder that optimize or demo made")
    parser.add_argument("--to", choices=("mlflow", "folder"), required=True, help="where to")
    parser.add_argument("--tracking-uri", metavar="URI", help="the MLflow to export to (the run's own)")
    parser.add_argument("--experiment", metavar="NAME", help="the MLflow experiment of the scorers (the run's own)")
    parser.add_argument("--name-prefix", default="gpa_", metavar="TEXT", help="begins every name in MLflow (gpa_)")
    parser.add_argument("--model", metavar="NAME", help="the LiteLLM model to run with (the one tuned with)")
    parser.add_argument("--endpoint", metavar="URL", help="its base URL (the one tuned with)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write (RUN/export)")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.config import PipelineError
    from pipeline.export.folder import export_to_folder
    from pipeline.export.run_export import Target, TunedRun, export_to_mlflow
    from pipeline.report.table import columns

    for_mlflow = ("tracking_uri", "experiment", "model", "endpoint")
    wrong = [name for name in (("out",) if args.to == "mlflow" else for_mlflow) if getattr(args, name) is not None]
    if wrong:
        raise PipelineError(f"--{wrong[0].replace('_', '-')} does not belong to --to {args.to}")
    tuned = TunedRun.open(args.run_dir)
    if args.to == "folder":
        folder = args.out or tuned.folder["export"]
        manifest = export_to_folder(tuned, folder)
        out.result(f"{len(manifest['judges'])} judges: {folder}", {"to": "folder", "folder": str(folder), **manifest})
        return 0
    target = Target(args.tracking_uri, args.experiment, args.name_prefix, args.model, args.endpoint)
    done = export_to_mlflow(tuned, target)
    rows = [["dimension", "prompt", "scorer", "version"]]
    rows += [[name, j.uri, j.scorer, str(j.scorer_version)] for name, j in done.judges.items()]
    head = f"{done.alias}s in experiment {done.experiment} of MLflow at {done.uri}"
    out.result("\n\n".join([columns(rows), "\n".join([head, *done.notes])]), done.to_json())
    return 0
