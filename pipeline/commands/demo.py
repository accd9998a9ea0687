from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.commands.arguments import seed, whole
from pipeline.commands.output import Output

if TYPE_CHECKING:
    from pipeline.config import ExperimentConfig

HELP = "All of it on simulated data: labelled traces, split, generic and holistic judges, search, held-out proof."
EXAMPLES = """\
examples:
  gpa-judges demo                           no key, no network
  gpa-judges demo --profile overzealous     a model that reports too much: the gain is in false alarms
  gpa-judges demo --null                    labels shuffled over the traces: there is nothing to learn
  gpa-judges demo --json > result.json      the result as a document

The agent, the people who label and the judge model are all simulated, from a seed. The exit code is 0 whatever the
verdict; `gpa-judges validate RUN` on the run folder gives the verdict's own code.
"""

STEPS = ("gepa", "evolution", "optuna")
"""Its search: texts by reflection, then consistency, then which of all texts, examples and knobs go together."""


traces = whole(10, 100_000)
"""What `data.simulated.traces` accepts."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--profile",
        choices=("default", "forgetful", "overzealous"),
        default="default",
        help="the simulated model's faults (default: a share of both)",
    )
    parser.add_argument("--traces", type=traces, default=400, metavar="N", help="how many traces to simulate (400)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of everything that is drawn (0)")
    parser.add_argument("--output", type=Path, default=Path("runs"), metavar="DIR", help="where runs are kept (runs)")
    parser.add_argument("--null", action="store_true", help="shuffle the labels: no gain may be claimed")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.report.table import result_table
    from pipeline.run import run_experiment

    result = run_experiment(demo_config(args), out.say)
    out.result(f"{result_table(result)}\n\n{_next_steps(result.run_dir)}", result.to_json())
    return 0


def demo_config(args: argparse.Namespace) -> ExperimentConfig:
    """The demo's experiment: the defaults of every section but these."""
    from pipeline.config_file import parse_config

    values: dict[str, Any] = {
        "name": "demo-null" if args.null else "demo",
        "seed": args.seed,
        "output": str(args.output),
        "data": {"simulated": {"traces": args.traces, "seed": args.seed, "shuffle_labels": args.null}},
        "judges": {"model": f"simulated/{args.profile}"},
        "matcher": {"kind": "text"},
        "search": [{"optimizer": name} for name in STEPS],
    }
    return parse_config(values, "the demo's experiment", Path.cwd())


def _next_steps(run_dir: Path) -> str:
    store = shlex.quote(f"sqlite:///{run_dir.parent / 'mlflow.db'}")
    return f"""\
run       {run_dir}
programs  {run_dir / "programs" / "tuned"}
report    {run_dir / "report.html"}
MLflow    mlflow ui --backend-store-uri {store}

Next, with your own traces:
  gpa-judges import TRACES --labels LABELS --out data.jsonl
  gpa-judges evaluate data.jsonl --model openai/gpt-5
and an experiment file of your own (the smallest one: gpa-judges optimize --help)
  gpa-judges optimize my.yaml"""
