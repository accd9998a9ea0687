"""The sub-commands by name. A command is a module with HELP, EXAMPLES, `configure(parser)` and `run(args, out)`."""

from __future__ import annotations

import argparse
from typing import Protocol

from pipeline.commands import (
    batch,
    convert,
    demo,
    evaluate,
    export,
    import_traces,
    inspect,
    label,
    ledger,
    optimize,
    raters,
    recalibrate,
    rollback,
    schedule,
    score,
    split,
    validate,
)
from pipeline.commands.output import Output


class Command(Protocol):
    HELP: str
    EXAMPLES: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments; `--json` is added for all."""

    def run(self, args: argparse.Namespace, out: Output) -> int:
        """Does it; returns the exit code."""


COMMANDS: dict[str, Command] = {
    "demo": demo,
    "import": import_traces,
    "inspect": inspect,
    "convert": convert,
    "raters": raters,
    "label": label,
    "split": split,
    "evaluate": evaluate,
    "batch": batch,
    "optimize": optimize,
    "validate": validate,
    "export": export,
    "score": score,
    "ledger": ledger,
    "recalibrate": recalibrate,
    "rollback": rollback,
    "schedule": schedule,
}
