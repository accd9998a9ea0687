"""The command `gpa-judges`. Heavy libraries are imported by the commands when they run, so that help is quick."""

from __future__ import annotations

import argparse
import atexit
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from judges.redact import redact
from pipeline.commands import COMMANDS
from pipeline.commands.arguments import add_json
from pipeline.commands.output import Output

BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
UNEXPECTED = 70

_DESCRIPTION = """\
Tunes LLM judges of agent traces on labelled traces, proves the gain on held-out ones.

  gpa-judges demo                                    all of it, on simulated data: no key, no network, about a minute
  gpa-judges import traces/ --labels labels/ --out data.jsonl          your traces and labels as one file
  gpa-judges evaluate data.jsonl --model openai/gpt-5                  how good are the generic judges on it?
  gpa-judges optimize experiment.yaml                                  tune them on the development split
  gpa-judges validate runs/my-experiment-1a2b3c4d                      better on the testset? PASS, FAIL, INCONCLUSIVE
  gpa-judges export runs/my-experiment-1a2b3c4d --to mlflow            ship them as scorers and prompts
"""
_EPILOG = """\
`gpa-judges COMMAND --help` explains a command. Every command takes --json: one JSON document on stdout, all else on
stderr. A command that was stopped is started again in the same words: what was paid is not paid twice.

exit codes: 0 done; 1 validation FAIL; 2 bad input; 3 a provider failed for good, or not one of its replies can be used;
            4 budget used up; 5 validation INCONCLUSIVE; 70 a fault of this program; 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # What a terminal's encoding lacks is escaped, never an error.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if argv is None else argv
    try:
        args = _parser().parse_args(words)
    except _UsageError as error:
        return Output(error.command, json_wanted="--json" in words).fail("UsageError", str(error), BAD_INPUT)
    step = getattr(args, "step", "")
    out = Output(f"{args.command} {step}".rstrip(), json_wanted=args.json)
    try:
        code = COMMANDS[args.command].run(args, out)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has gone. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt as stop:
        # A second one ends the wait for calls in flight, and must not break into Python's own end: that would show.
        with suppress(ValueError):  # not in the main thread
            signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        said = "".join(f": {note}" for note in getattr(stop, "__notes__", ())[:1])
        return out.fail("Interrupted", f"interrupted{said}; start the same command again to resume", INTERRUPTED)
    except Exception as error:
        code = _exit_code(error)
        if code != UNEXPECTED:
            hint = "; everything so far is kept: raise the budget and start the same command again" if code == 4 else ""
            return out.fail(type(error).__name__, f"{error}{hint}", code)
        place = _keep_traceback()
        return out.fail(type(error).__name__, f"a fault of this program: {error} (details: {place})", UNEXPECTED)


def run() -> NoReturn:
    """The process: an interrupt that comes when the result is out changes nothing any more, so it says nothing."""
    # What is registered first runs last. Without it a Python that runs a module dies by the signal, whatever the exit
    # code is, if the interrupt came inside an exec(), as imports of dataclasses do.
    codes: list[int] = []
    atexit.register(lambda: os._exit(INTERRUPTED) if codes == [INTERRUPTED] else None)
    codes.append(main())
    if codes != [INTERRUPTED]:  # a second one then ends the wait for calls in flight
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(codes[0])


class _UsageError(Exception):
    """A command line that is not accepted; `command` may be empty."""

    def __init__(self, command: str, message: str) -> None:
        super().__init__(message)
        self.command = command


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise _UsageError(self.prog.removeprefix("gpa-judges").strip(), message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gpa-judges",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        one = commands.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog=command.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(one)
        add_json(one)
    return parser


def _exit_code(error: Exception) -> int:
    """The exit code of an error. The imports cost nothing here: what raised the error has made them."""
    from judges.lm import BudgetExhausted, JudgeError, LMError, ProviderDown
    from labeled_traces.trace import TraceError
    from pipeline.config import PipelineError

    codes: dict[type[Exception], int] = {LMError: 3, ProviderDown: 3, BudgetExhausted: 4}
    codes |= dict.fromkeys((TraceError, JudgeError, PipelineError, OSError), BAD_INPUT)
    return next((code for kind, code in codes.items() if isinstance(error, kind)), UNEXPECTED)


def _keep_traceback() -> str:
    handle, path = tempfile.mkstemp(prefix="gpa-judges-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(redact(traceback.format_exc()))
    return path


if __name__ == "__main__":
    run()
