"""The options with which a command reads traces: files of `gpa-judges import`, or of other systems as import does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.commands.live import live_source, place

if TYPE_CHECKING:
    from labeled_traces.dataset import Dataset, LabeledTrace
    from labeled_traces.readers.report import ReadReport

Into = TypeVar("Into", bound=Sized)


def add_reading(parser: argparse.ArgumentParser, files: str = "files or folders: JSON, JSON Lines, Parquet") -> None:
    """`files`: what is said of the files."""
    parser.add_argument("files", type=place, nargs="+", metavar="FILE", help=files)
    said = "the files' format, where their first records do not show it (all names: gpa-judges import --help)"
    parser.add_argument("--format", default="auto", metavar="NAME", help=said)
    said = "files with people's labels: the format's own, or tables (CSV, TSV, Parquet, JSON rows) for any format"
    parser.add_argument("--labels", type=Path, nargs="+", default=[], metavar="FILE", help=said)
    said = "which category of error falls under which dimensions: a YAML file, or trail, agentrx, who_and_when, "
    said += "mp_bench, agent_process_bench, agent_error_bench; by default the one that is usual for the format (trail "
    said += "for data that import wrote)"
    parser.add_argument("--taxonomy", metavar="NAME|FILE", help=said)
    parser.add_argument(
        "--columns",
        nargs="+",
        metavar="FIELD=COLUMN",
        help="which column of a table of labels is what, as in trace_id=run,step=turn; the rest is recognised by its "
        "name, and what was guessed is told",
    )
    parser.add_argument(
        "--steps-from", type=int, choices=(0, 1), help="the number of a trace's first step, where a column counts steps"
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="labels of traces that are not there, and rows of a table of labels that cannot be read, are counted and "
        "listed, else an error",
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first record or file that cannot be read")


def read_traces(args: argparse.Namespace) -> tuple[Dataset, ReadReport]:
    """Raises: as `labeled_traces.readers.read`."""
    from labeled_traces.readers import read

    return read(args.files, args.format, **_how(args))


def read_traces_into(
    args: argparse.Namespace, into: Callable[[Iterator[tuple[str, LabeledTrace]], ReadReport], Into]
) -> tuple[Into, ReadReport]:
    """Raises: as `labeled_traces.readers.read_into`."""
    from labeled_traces.readers import read_into

    if (source := live_source(args)) is not None:
        from pipeline.live_traces import read_live_into

        return read_live_into(into, source, **_how(args))
    return read_into(into, args.files, args.format, **_how(args))


@contextmanager
def progress_of_reading(args: argparse.Namespace, report: ReadReport, done: Callable[[], str]) -> Iterator[None]:
    """Shows on a terminal how much of large files has been read, beside what `done` says."""
    from pipeline.progress import Progress

    given = map(Path, args.files)
    inside = (file for path in given for file in (path.rglob("*") if path.is_dir() else [path]))
    megabytes = sum(file.stat().st_size for file in inside if file.is_file()) // _MEGABYTE
    shown = megabytes >= _LONG and sys.stderr is not None and sys.stderr.isatty() and not args.json
    rest = 0

    def taken(count: int) -> None:
        nonlocal rest
        whole, rest = divmod(rest + count, _MEGABYTE)
        if whole:
            progress.update(whole)

    with Progress("import" if shown else None, megabytes, unit="MB", spent=done) as progress:
        if shown:
            report.taken = taken
        yield


_MEGABYTE = 1_000_000
_LONG = 50
"""Megabytes: less is read in no time."""


def _how(args: argparse.Namespace) -> dict[str, Any]:
    """What holds for files and for live traces."""
    from labeled_traces.readers.labels.table_columns import TableForm

    given = args.columns is not None or args.steps_from is not None
    table = TableForm.parse(args.columns or (), args.steps_from) if given else None
    names = ("labels", "taxonomy", "strict", "allow_missing")
    return {**{name: getattr(args, name) for name in names}, "table": table}
