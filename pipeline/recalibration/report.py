"""What a pass did, for people."""

from __future__ import annotations

from pathlib import Path

from pipeline.hints import command
from pipeline.recalibration.home import Passed
from pipeline.report.table import columns, conditions, money, verdict_line
from pipeline.results import Result
from pipeline.run import REPORT


def gate_lines(result: Result) -> list[str]:
    """What the gate said: champion, challenger and gain, what did not hold, and how many labels would decide it."""
    lines = [f"gate: {verdict_line(result)}"]
    lines += [f"{state}: {condition}" for state, condition in conditions(result) if state != "held"]
    if result.labels_needed is not None:
        lines.append(f"about {result.labels_needed} more labelled traces would decide it")
    return lines


def pass_table(done: Passed, config: Path) -> str:
    """Decision, reasons, the champions of now, and what to do next."""
    lines = [f"Decision: {done.decision}", *(f"  {reason}" for reason in done.reasons)]
    if "calls" in (about := done.document):
        cost = money(about["cost"], about["simulated"])
        lines.append(f"Cost of this pass: {about['calls']:,} calls, {about['tokens']:,} tokens, {cost}")
    if gate := about.get("gate"):
        lines.append(f"Report of the gate: {Path(gate['run_dir']) / REPORT}")
    if done.document:
        lines.append(f"Record in MLflow: run {done.run_id}")
    rows = [["dimension", "champion", "program"]]
    rows += [[name, judge.uri, judge.program.hash] for name, judge in done.champions.items()]
    following = {
        "promoted": f"  {command('rollback', config)}    if it was a mistake",
        "needs labels": f"  {done.more} more labelled traces are needed, then again: {command('recalibrate', config)}",
    }.get(done.decision, f"  after more labels: {command('recalibrate', config)}")
    return "\n\n".join(["\n".join(lines), columns(rows), f"Next:\n{following}"])
