"""The options with which a command reads traces: files of `gpa-judges import`, or of other systems as import does."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labeled_traces.dataset import Dataset
    from labeled_traces.readers.report import ReadReport


def add_reading(parser: argparse.ArgumentParser, files: str = "files or folders") -> None:
    """`files`: what is said of the files."""
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help=files)
    said = "the format's name, where it is not recognised; an unknown name tells all"
    parser.add_argument("--format", default="auto", metavar="NAME", help=said)
    parser.add_argument("--labels", type=Path, nargs="+", default=[], metavar="FILE", help="files with people's labels")
    parser.add_argument("--taxonomy", metavar="FILE", help="which category of error falls under which dimensions")
    parser.add_argument(
        "--allow-missing", action="store_true", help="labels of traces that are not there are counted, else an error"
    )
    parser.add_argument("--strict", action="store_true", help="stop at the first record or file that cannot be read")


def read_traces(args: argparse.Namespace) -> tuple[Dataset, ReadReport]:
    """Raises: as `labeled_traces.readers.read`."""
    from labeled_traces.readers import read

    return read(args.files, args.format, args.labels, args.taxonomy, args.strict, args.allow_missing)
