"""The options with which a command reads traces: files of `gpa-judges import`, or of other systems as import does."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.commands.live import live_source, place

if TYPE_CHECKING:
    from labeled_traces.dataset import Dataset, LabeledTrace
    from labeled_traces.readers.report import ReadReport

Into = TypeVar("Into", bound=Sized)


def add_reading(parser: argparse.ArgumentParser, files: str = "files or folders") -> None:
    """`files`: what is said of the files."""
    parser.add_argument("files", type=place, nargs="+", metavar="FILE", help=files)
    said = "the format's name, where it is not recognised; an unknown name tells all"
    parser.add_argument("--format", default="auto", metavar="NAME", help=said)
    parser.add_argument("--labels", type=Path, nargs="+", default=[], metavar="FILE", help="files with people's labels")
    parser.add_argument("--taxonomy", metavar="FILE", help="which category of error falls under which dimensions")
    parser.add_argument(
        "--columns",
        nargs="+",
        metavar="FIELD=COLUMN",
        help="of labels in a table (CSV, TSV, Parquet, JSON rows): trace_id=run,step=turn ...; recognised by their "
        "names where they are not given",
    )
    parser.add_argument(
        "--steps-from", type=int, choices=(0, 1), help="the number of the first step, where a column counts steps"
    )
    parser.add_argument(
        "--allow-missing", action="store_true", help="labels of traces that are not there are counted, else an error"
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first record or file that cannot be read")


def read_traces(args: argparse.Namespace) -> tuple[Dataset, ReadReport]:
    """Raises: as `labeled_traces.readers.read`."""
    from labeled_traces.readers import read

    return read(*_how(args))


def read_traces_into(
    args: argparse.Namespace, into: Callable[[Iterator[tuple[str, LabeledTrace]], ReadReport], Into]
) -> tuple[Into, ReadReport]:
    """Raises: as `labeled_traces.readers.read_into`."""
    from labeled_traces.readers import read_into

    if (source := live_source(args)) is not None:
        from pipeline.live_traces import read_live_into

        _, _, *how = _how(args)
        return read_live_into(into, source, *how)
    return read_into(into, *_how(args))


def _how(args: argparse.Namespace) -> tuple[Any, ...]:
    from labeled_traces.readers.labels.table_columns import TableForm

    given = args.columns is not None or args.steps_from is not None
    table = TableForm.parse(args.columns or (), args.steps_from) if given else None
    return args.files, args.format, args.labels, args.taxonomy, args.strict, args.allow_missing, table
