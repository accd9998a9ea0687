"""When re-calibration runs: a line for cron, a workflow for GitHub Actions, or a small loop in the foreground."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import yaml

from pipeline.config import PipelineError

When: TypeAlias = Callable[[datetime], bool]
"""Whether a job is due in this minute."""
_FIELDS = {"minute": 60, "hour": 24, "day": 31, "month": 12, "day_of_week": 7}
"""How many values each has."""
_PIECE = re.compile(r"\*(?:/(?P<step>[0-9]+))?|[0-9]+|(?P<first>[0-9]+)-(?P<last>[0-9]+)(?:/[0-9]+)?")
_ACCEPTED = (
    'accepted are five fields (minute, hour, day of month, month, day of week) of numbers, "*", "*/n", "a-b" and '
    '"a,b", such as "0 6 * * 1" for Mondays at six'
)


def parse_cron(expression: str) -> When:
    """
    Raises:
        PipelineError: not a cron expression, or one that schedulers read in different ways: day of month and day of
            week together (cron: either is enough; others: both are needed), a range that runs backwards, a step that
            is longer than its field.
    """
    fields = expression.split()
    if len(fields) != len(_FIELDS):
        raise PipelineError(f"cron expression {expression!r} has {len(fields)} fields: {_ACCEPTED}")
    if fields[2] != "*" and fields[4] != "*":
        raise PipelineError(
            f"cron expression {expression!r} names days of the month and of the week: accepted is one of them, since "
            "schedulers read both together in different ways"
        )
    if not re.fullmatch(r"\S+(?:[ \t]+\S+)*", expression):
        raise PipelineError(f"cron expression {expression!r} is not five fields in one line: {_ACCEPTED}")
    for (name, size), value in zip(_FIELDS.items(), fields, strict=True):
        for piece in value.split(","):
            if not _is_read_alike(piece, size):
                raise PipelineError(f"cron expression {expression!r}: {piece!r} is no {name}: {_ACCEPTED}")
    from huey import crontab

    try:
        due: When = crontab(**dict(zip(_FIELDS, fields, strict=True)), strict=True)
    except ValueError as error:
        raise PipelineError(f"cron expression {expression!r}: {error}: {_ACCEPTED}") from error
    return due


def _is_read_alike(piece: str, size: int) -> bool:
    """Whether all schedulers read the piece in the same way. Whether its numbers are in range, huey checks."""
    found = _PIECE.fullmatch(piece)
    if found is None:
        return False
    first, last, step = (int(found[name] or 0) for name in ("first", "last", "step"))
    return first <= last and step < size


def crontab_line(expression: str, config: Path, log: Path) -> str:
    """One line for `crontab -e`; the program and all paths are absolute, since cron knows no search path."""
    command = f"{shlex.join([*_program(), 'recalibrate', str(config)])} >> {shlex.quote(str(log))} 2>&1"
    # cron ends a command at a percent sign.
    return f"{expression} {command.replace('%', chr(92) + '%')}"


def workflow(expression: str, config: Path, state: Path) -> str:
    """A workflow file of GitHub Actions, which reads cron expressions in UTC. Paths are relative to the repository. The
    state folder is kept from run to run, so that a pass that was stopped pays for nothing twice. What pip installs
    gpa-judges from stands in a variable of the repository: a name alone may be another package of that name.

    Raises:
        PipelineError: a path that GitHub would read as something else.
    """
    # An attempt of a run that is run again has the same id, and GitHub writes no key twice.
    key = "recalibration-${{ github.run_id }}-${{ github.run_attempt }}"
    cached = {"path": _cached(state), "key": key}
    secrets = ("OPENAI_API_KEY", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")
    steps = [
        {"uses": "actions/checkout@v4"},
        {"uses": "actions/setup-python@v5", "with": {"python-version": "3.11"}},
        {"uses": "actions/cache/restore@v4", "with": {**cached, "restore-keys": "recalibration-"}},
        {"run": 'pip install "${{ vars.GPA_JUDGES }}"'},
        {
            "run": f"gpa-judges recalibrate {shlex.quote(_literal(config))} --json",
            "env": {name: f"${{{{ secrets.{name} }}}}" for name in secrets},
        },
        {"uses": "actions/cache/save@v4", "if": "always()", "with": dict(cached)},
    ]
    document = {
        "name": "recalibrate judges",
        "on": {"schedule": [{"cron": expression}], "workflow_dispatch": {}},
        "concurrency": {"group": "recalibrate-judges", "cancel-in-progress": False},
        "jobs": {"recalibrate": {"runs-on": "ubuntu-latest", "steps": steps}},
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10**6)


def _cached(folder: Path) -> str:
    path = _literal(folder)
    if path[0] in "!#~" or set(path) & set("*?[]\n"):
        raise PipelineError(
            f"state folder {path!r}: GitHub's cache reads a pattern in it: accepted is a path that does not begin with "
            "!, # or ~ and has no *, ?, [, ] or line break"
        )
    return path


def _literal(path: Path) -> str:
    text = path.as_posix()
    if "${{" in text:
        raise PipelineError(f"path {text!r}: GitHub reads an expression in it: accepted is a path without ${{{{")
    return text


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
    # -P: a pipeline.py in the folder that it is started in is not ours.
    return [sys.executable, "-P", "-m", "pipeline.cli"]
