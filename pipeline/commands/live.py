"""The options with which a command reads a running MLflow."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.live_traces import LiveSource

_URI = re.compile(r"(?:https?|sqlite|postgresql|mysql|mssql)(?:\+\w+)?://|databricks(?:://|$)")
_OPTIONS = ("tracking_uri", "experiment", "filter", "session", "prefix")


def place(text: str) -> Path | str:
    """A path; what is the URI of a tracking store stays text."""
    return text if _URI.match(text) else Path(text)


def add_live(parser: argparse.ArgumentParser) -> None:
    """Where traces are read out of a running MLflow."""
    live = parser.add_argument_group("out of a running MLflow (FILE is `mlflow`, or the URI of its server or database)")
    live.add_argument("--tracking-uri", metavar="URI", help="where MLflow is, if FILE is `mlflow`")
    live.add_argument("--experiment", metavar="NAME", help="the experiment that holds the traces")
    live.add_argument("--filter", metavar="TEXT", help="only traces that match, in MLflow's language of filters")
    live.add_argument("--session", metavar="ID", help="only traces of this session")
    live.add_argument("--prefix", metavar="TEXT", help="begins the names of people's feedback that is read (gpa_)")


def live_source(args: argparse.Namespace) -> LiveSource | None:
    """The experiment that is named; None where files are.

    Raises:
        PipelineError: an experiment without its MLflow, or the other way round, or files beside them.
    """
    from pipeline.config import PipelineError

    given = {name: value for name in _OPTIONS if (value := getattr(args, name, None)) is not None}
    uris = [file for file in args.files if isinstance(file, str)]
    if args.files == [Path("mlflow")] and (given or not Path("mlflow").exists()):
        uris = [given["tracking_uri"]] if "tracking_uri" in given else []
    elif not uris and not given:
        return None
    elif len(args.files) > 1 or not uris or "tracking_uri" in given:
        raise PipelineError(
            "a running MLflow is read by itself: accepted are `mlflow --tracking-uri URI --experiment NAME`, "
            "`URI --experiment NAME`, or files without any of these options"
        )
    if not uris or "experiment" not in given:
        missing = "--experiment NAME" if uris else "--tracking-uri URI"
        raise PipelineError(f"which MLflow and which experiment is to be read? {missing} is missing")
    from pipeline.live_traces import LiveSource

    given.pop("tracking_uri", None)
    return LiveSource(uri=uris[0], **given)
