"""When re-calibration runs: a line for cron, a workflow for GitHub Actions, or a small loop in the foreground."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from pipeline.config import PipelineError

When: TypeAlias = Callable[[datetime], bool]
"""Whether a job is due in this minute."""
_FIELDS = ("minute", "hour", "day", "month", "day_of_week")
_ACCEPTED = (
    'accepted are five fields (minute, hour, day of month, month, day of week) of numbers, "*", "*/n", "a-b" and '
    '"a,b", such as "0 6 * * 1" for Mondays at six'
)


def parse_cron(expression: str) -> When:
    """
    Raises:
        PipelineError: not a cron expression, or one that schedulers read in different ways: day of month and day of
            week together (cron: either is enough; others: both are needed).
    """
    fields = expression.split()
    if len(fields) != len(_FIELDS):
        raise PipelineError(f"cron expression {expression!r} has {len(fields)} fields: {_ACCEPTED}")
    if fields[2] != "*" and fields[4] != "*":
        raise PipelineError(
            f"cron expression {expression!r} names days of the month and of the week: accepted is one of them, since "
            "schedulers read both together in different ways"
        )
    from huey import crontab

    try:
        due: When = crontab(**dict(zip(_FIELDS, fields, strict=True)), strict=True)
    except ValueError as error:
        raise PipelineError(f"cron expression {expression!r}: {error}: {_ACCEPTED}") from error
    return due


def crontab_line(expression: str, config: Path, log: Path) -> str:
    """One line for `crontab -e`; the program and all paths are absolute, since cron knows no search path."""
    command = f"{shlex.join([*_program(), 'recalibrate', str(config)])} >> {shlex.quote(str(log))} 2>&1"
    # cron ends a command at a percent sign.
    return f"{expression} {command.replace('%', chr(92) + '%')}"


def workflow(expression: str, config: Path, state: Path) -> str:
    """A workflow file of GitHub Actions, which reads cron expressions in UTC. Paths are relative to the repository. The
    state folder is kept from run to run, so that a pass that was stopped pays for nothing twice. What pip installs
    gpa-judges from stands in a variable of the repository: a name alone may be another package of that name."""
    return f"""\
name: recalibrate judges
on:
  schedule:
    - cron: "{expression}"
  workflow_dispatch:
concurrency:
  group: recalibrate-judges
  cancel-in-progress: false
jobs:
  recalibrate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.11"
      - uses: actions/cache/restore@v4
        with:
          path: {json.dumps(state.as_posix())}
          key: recalibration-${{{{ github.run_id }}}}
          restore-keys: recalibration-
      - run: pip install "${{{{ vars.GPA_JUDGES }}}}"
      - run: gpa-judges recalibrate {shlex.quote(config.as_posix())} --json
        env:
          OPENAI_API_KEY: ${{{{ secrets.OPENAI_API_KEY }}}}
          MLFLOW_TRACKING_USERNAME: ${{{{ secrets.MLFLOW_TRACKING_USERNAME }}}}
          MLFLOW_TRACKING_PASSWORD: ${{{{ secrets.MLFLOW_TRACKING_PASSWORD }}}}
      - uses: actions/cache/save@v4
        if: always()
        with:
          path: {json.dumps(state.as_posix())}
          key: recalibration-${{{{ github.run_id }}}}
"""


def needs(target: str, uri: str) -> list[str]:
    """What has to be there for the job to run, for people; `uri` is where MLflow is."""
    if target == "cron":
        return [
            "add this line with `crontab -e`; cron has none of your shell's variables, so the models' keys (such as "
            "OPENAI_API_KEY=...) belong on lines above it"
        ]
    lines = [
        "in the repository's settings: the variable GPA_JUDGES (what pip installs gpa-judges from: a path in the "
        "repository, or git+https://...) and the secrets that the workflow names; times are UTC"
    ]
    if urlsplit(uri).hostname in (None, "localhost", "127.0.0.1", "::1"):
        lines.append(
            f"warning: a machine of GitHub's cannot reach MLflow at {uri}: accepted is a server on the network"
        )
    return lines


def run_forever(
    due: When,
    config: Path,
    say: Callable[[str], None],
    now: Callable[[], datetime] = datetime.now,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Runs the pass in a process of its own whenever it is due, in local time, until it is interrupted. A minute that
    passes while a pass runs is not made up for. The next pass is tried whatever became of the last one."""
    while True:
        moment = now()
        next_minute = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        sleep((next_minute - moment).total_seconds())
        if due(next_minute):
            code = subprocess.run([*_program(), "recalibrate", str(config)], check=False).returncode
            say(f"{next_minute:%Y-%m-%d %H:%M}: the pass ended with exit code {code}")


def _program() -> list[str]:
    return [sys.executable, "-m", "pipeline.cli"]
