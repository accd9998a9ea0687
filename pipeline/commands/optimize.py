from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.arguments import add_consent
from pipeline.commands.output import Output
from pipeline.hints import command
from pipeline.terminal import counted

HELP = "Tune the judges of an experiment file on its development split. The testset is not touched."
EXAMPLES = """\
examples:
  gpa-judges optimize experiment.yaml
  gpa-judges optimize experiment.yaml --json | jq .run_dir

The smallest experiment file; paths are relative to it, what is not given has a default:
  name: support-agent
  data: {path: data.jsonl}
  judges: {model: openai/gpt-5}
  search: {reflection_model: openai/gpt-5}
  budget: {dollars: 20}

Started again after a stop (Ctrl-C, a kill, a used-up budget that was raised), it goes on where it was.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", type=Path, metavar="EXPERIMENT.yaml", help="the experiment file")
    add_consent(parser, "the file's ask_above")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.config_file import load_config
    from pipeline.report.table import columns, money, steps_table
    from pipeline.run import optimize
    from pipeline.run_folder import METRICS, TUNED
    from pipeline.tune import load_steps, useless_reflection

    config = load_config(args.experiment)
    if args.ask_above is not None:
        config = config.model_copy(update={"ask_above": args.ask_above})
    run, suite, usage = optimize(config, out.say, args.yes)
    metrics = run.folder.read_json(METRICS)
    rows = [["dimension", "changed by", "gain per trace", "trials", "judge calls", "program"]]
    for name, found in metrics["dimensions"].items():
        changed = ", ".join(found["changed_by"]) or "-"
        gain = "-" if found["gain"] is None else f"{found['gain']['value']:+.3f}"
        rows.append([name, changed, gain, str(found["trials"]), str(found["judge_calls"]), found["program"]])
    rule = ", ".join(f"{key} {value}" for key, value in suite.rule.to_json().items())
    programs = run.folder.programs(TUNED)
    cost = (
        f"{counted(usage.calls, 'call')}, {usage.tokens:,} tokens, {money(usage.dollars, run.simulated, usage.doubt)}"
    )
    about = f"decision rule: {rule}\nprograms: {programs}\nCost: {cost}"
    following = f"Next, on the testset:\n  {command('validate', run.folder.path)}"
    if suite.hash == run.suite.hash:
        following = "Nothing was changed, so there is nothing to validate: do not spend the testset on it."
    useless = useless_reflection(metrics) if suite.hash == run.suite.hash else None
    if useless is not None:
        following = f"WARNING: {useless}"
    parts = (columns(rows), steps_table(load_steps(run.folder)), about, following)
    out.result(
        "\n\n".join(part for part in parts if part),
        {
            "run_dir": str(run.folder.path),
            "programs": str(programs),
            "suite": suite.hash,
            "decision_rule": suite.rule.to_json(),
            "calls": usage.calls,
            "tokens": usage.tokens,
            "cost": usage.dollars,
            "warning": useless,
            **metrics,
        },
    )
    return 0 if useless is None else 3
