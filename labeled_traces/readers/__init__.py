"""Files of other systems as labelled traces.

A module here is a reader. What readers share has rooms: files/ (records out of files), spans/ (what each system writes
in a span), labels/ (what people said, joined with traces), mending/ (what happens to the spans of any source).
To add a format: a module with `role` and `read`, and a line in READERS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypedDict, TypeVar, Unpack

from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.readers import (
    adk,
    agent_error_bench,
    agent_process_bench,
    agentrx,
    dataset,
    langfuse,
    langsmith,
    mlflow,
    mp_bench,
    openai_agents,
    openinference,
    otlp,
    smolagents,
    trail,
    trulens,
    who_and_when,
)
from labeled_traces.readers.files.records import SUFFIXES, expand, first_record
from labeled_traces.readers.files.tables import TEXTS
from labeled_traces.readers.labels.joining import LabelsError
from labeled_traces.readers.labels.table import LabelTable, is_table
from labeled_traces.readers.labels.table_columns import TableForm
from labeled_traces.readers.mending.original import restore
from labeled_traces.readers.report import FILE, NO_CONTENT, ReadOptions, ReadReport
from labeled_traces.readers.unknown_format import check_no_csv, unknown_format
from labeled_traces.taxonomy import Taxonomy, load_taxonomy
from labeled_traces.trace import JSON, TraceError


@dataclass(frozen=True)
class Reader:
    """`role`: `traces`, `labels` or None for a record. `read`: files -> (place, row). `taxonomy`: its usual table.
    `record`: what its records look like, for people whose file is of no known format."""

    role: Callable[[JSON], str | None]
    read: Callable[[Sequence[Path], ReadOptions], Iterator[tuple[str, LabeledTrace]]]
    taxonomy: str
    record: str


READERS: dict[str, Reader] = {
    "dataset": Reader(dataset.role, dataset.read, "trail", "{trace: {trace_id, spans}, errors}, what import writes"),
    "agentrx": Reader(agentrx.role, agentrx.read, "agentrx", "{task_id, traj}"),
    "adk": Reader(adk.role, adk.read, "trail", "sessions {id, app_name, events}, {eval_cases}"),
    "langfuse": Reader(langfuse.role, langfuse.read, "trail", "{trace, observations}"),
    "langsmith": Reader(langsmith.role, langsmith.read, "trail", "runs {id, run_type, inputs}"),
    "mlflow": Reader(
        mlflow.role, mlflow.read, "trail", "{info, data: {spans}}, rows {trace_id, spans, trace_metadata}"
    ),
    "trail": Reader(trail.role, trail.read, "trail", "{trace_id, spans}, rows {trace, labels}"),
    "otlp": Reader(otlp.role, otlp.read, "trail", "{resourceSpans}"),
    "openai_agents": Reader(openai_agents.role, openai_agents.read, "trail", "{object: trace.span, span_data}"),
    "smolagents": Reader(smolagents.role, smolagents.read, "trail", "{steps: [{step_number}]}"),
    "openinference": Reader(openinference.role, openinference.read, "trail", "spans {span_id, attributes}"),
    "trulens": Reader(trulens.role, trulens.read, "trail", "{record_attributes, trace}"),
    "mp_bench": Reader(mp_bench.role, mp_bench.read, "mp_bench", "{history: [{fail_annotation}]}"),
    "who_and_when": Reader(
        who_and_when.role, who_and_when.read, "who_and_when", "{history, mistake_agent, mistake_step}"
    ),
    "agent_process_bench": Reader(
        agent_process_bench.role, agent_process_bench.read, "agent_process_bench", "{messages, step_labels}"
    ),
    "agent_error_bench": Reader(
        agent_error_bench.role, agent_error_bench.read, "agent_error_bench", "{trajectory_id, full_trajectory}"
    ),
}


Paths: TypeAlias = Path | str | Iterable[Path | str]
Rows: TypeAlias = Iterator[tuple[str, LabeledTrace]]
Into = TypeVar("Into", bound=Sized)
TWICE = "trace twice, kept once"
OTHER_FORMAT = "file of another format, left out"


def sniff(path: Path) -> str:
    """The format of a file, or of the files in a folder, by their first records. Files of no known format are skipped.

    Raises:
        TraceError: no known format, or several.
    """
    return _sort(expand([Path(path)]), "auto", ReadReport())[0]


class How(TypedDict, total=False):
    """How traces and labels are read, see `read_into`."""

    labels: Paths | None
    taxonomy: str | Path | Taxonomy | None
    strict: bool
    allow_missing: bool
    table: TableForm | None


def read(paths: Paths, format: str = "auto", **how: Unpack[How]) -> tuple[Dataset, ReadReport]:
    """Labelled traces out of files and folders. What cannot be read is left out, and the report says so.

    Arguments and errors are those of `read_into`.
    """
    return read_into(_dataset, paths, format, **how)


def _dataset(rows: Rows, report: ReadReport) -> Dataset:
    return Dataset.from_places(rows, lambda message: report.add(TWICE, message), report.leave_out)


def read_into(
    into: Callable[[Rows, ReadReport], Into],
    paths: Paths,
    format: str = "auto",
    labels: Paths | None = None,
    taxonomy: str | Path | Taxonomy | None = None,
    strict: bool = False,
    allow_missing: bool = False,
    table: TableForm | None = None,
) -> tuple[Into, ReadReport]:
    """As `read`, for more traces than memory holds: `into` takes the (place, row) pairs one by one.

    Args:
        into: its result has a length, the number of different traces.
        paths: traces; label files among them are used as labels.
        format: a name of READERS, or `auto`.
        labels: further label files or folders.
        taxonomy: a table or its name or file; None means the one of the format.
        strict: whether anything that cannot be read is an error.
        table: how label files that are tables are read, see `labels/table.py`.
        allow_missing: whether labels of traces that were not read are left out and counted, else they are an error.

    Raises:
        TraceError, with its place: nothing could be read, no trace has any content, or labels contradict each other.
    """
    report = ReadReport(strict=strict)
    files = _files(paths, report)
    if not files:
        raise TraceError("no file was given: accepted are files and folders")
    label_files = _files(labels or (), report, (*SUFFIXES, *TEXTS))
    known_labels = {file.resolve() for file in label_files}
    rest = [file for file in files if file.resolve() not in known_labels]
    if not rest:
        raise TraceError(f"{files[0]}: is given as labels, and nothing else as traces: accepted are traces, and labels")
    chosen, trace_files, more = _sort(rest, format, report)
    if not trace_files:
        raise report.nothing_read() or TraceError(f"{more[0]}: holds labels, no traces: traces are needed")
    reader = READERS[chosen]
    categories = taxonomy if isinstance(taxonomy, Taxonomy) else load_taxonomy(taxonomy or reader.taxonomy)
    tables = [file for file in label_files if is_table(file, reader.role, table)]
    if table is not None and not tables:
        raise TraceError(
            "columns of a table of labels are named, but no label file is a table (CSV, Parquet, JSON rows)"
        )
    natives = (*(file for file in label_files if file not in tables), *more)
    options = ReadOptions(categories, report, labels=natives, allow_missing=allow_missing)
    said = LabelTable.load(tables, table or TableForm(), options) if tables else None
    read_rows = restore(reader.read(trace_files, options), report)
    with _one_of(files):
        taken = into(said.join(read_rows) if said else read_rows, report)
    report.tell_unlabelled()
    if not len(taken):
        kept = f": what is there is kept from the judges ({', '.join(report.stripped)})" if report.stripped else ""
        raise report.nothing_read() or TraceError(f"{files[0]}: holds no trace{kept}")
    if report.counts.get(NO_CONTENT, 0) >= len(taken):
        raise TraceError(
            f"{report.examples[NO_CONTENT][0]}: {NO_CONTENT}, and so is every trace that was read: accepted are spans "
            "with input.value and output.value, messages (llm.*, gen_ai.*), mlflow.spanInputs and mlflow.spanOutputs"
        )
    return taken, report


def _files(paths: Paths, report: ReadReport, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    return expand((Path(path) for path in ([paths] if isinstance(paths, Path | str) else paths)), report, suffixes)


def _sort(files: Sequence[Path], name: str, report: ReadReport) -> tuple[str, list[Path], list[Path]]:
    """The format, the files with traces and those with labels.

    Raises:
        TraceError: no file of a known format, or files of several.
    """
    if name != "auto" and name not in READERS:
        raise TraceError(f"format {name!r} is unknown: accepted are auto, {', '.join(READERS)}")
    roles: dict[Path, dict[str, str]] = {}
    others: dict[Path, str] = {}
    for file in files:
        try:
            found = _roles(file, None if name == "auto" else name)
            if name == "auto" or name in found or len(files) == 1:
                roles[file] = found if name in ("auto", *found) else {name: "traces"}
            else:
                others[file] = next(iter(found))
        except TraceError as error:
            with _one_of(files):
                report.leave_out(error, FILE)
    if others:
        counts = ", ".join(f"{other} {count}" for other, count in Counter(others.values()).most_common())
        said = f"{next(iter(others))} ({counts})"
        if report.strict or not roles:
            raise TraceError(f"{said}: no {name}: accepted is one format at a time; {_EACH}")
        report.add(OTHER_FORMAT, said, len(others))
    if not roles:
        raise report.nothing_read() or TraceError(f"{files[0]}: holds no traces: traces are needed")
    chosen = next((known for known in READERS if all(known in found for found in roles.values())), None)
    if chosen is None:
        firsts = {next(iter(found)): file for file, found in reversed(roles.items())}
        formats = " and ".join(f"{file} is {format}" for format, file in reversed(firsts.items()))
        raise TraceError(
            f"{formats}: accepted is one format at a time: only the files, or the folder, of one of them, or --format "
            f"NAME, which leaves out what is not of it; {_EACH}"
        )
    parts: dict[str, list[Path]] = {"traces": [], "labels": []}
    for file, found in roles.items():
        parts[found[chosen]].append(file)
    return chosen, parts["traces"], parts["labels"]


_EACH = (
    "to have all of them, import each with --format NAME --out NAME.jsonl, then the results: import *.jsonl --out FILE"
)


@contextmanager
def _one_of(files: Sequence[Path]) -> Iterator[None]:
    """An error that ends the reading of all files for one of them says how many others there are."""
    try:
        yield
    except TraceError as error:
        others = len(files) - 1
        if not others or isinstance(error, LabelsError):
            raise
        said = "1 other file was given" if others == 1 else f"{others:,} other files were given"
        raise TraceError(f"{error} ({said})") from error


def _roles(path: Path, name: str | None = None) -> dict[str, str]:
    """Format -> `traces` or `labels`: which readers can read a file, by its first record, and as what.

    A given format is believed for its traces, unless the record is of another one.
    """
    check_no_csv(path)
    record = first_record(path)
    if record is None:
        raise TraceError(f"{path}: holds no record: accepted is at least one")
    if name is not None:
        own = READERS[name].role(record)
        found = {} if own is not None else _known(record)
        return found or {name: own or "traces"}
    roles = _known(record)
    if not roles:
        raise unknown_format(path, record, {known: reader.record for known, reader in READERS.items()})
    return roles


def _known(record: JSON) -> dict[str, str]:
    return {name: part for name, reader in READERS.items() if (part := reader.role(record)) is not None}
