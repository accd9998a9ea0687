from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.commands.live import add_live
from pipeline.commands.output import Output, check_same
from pipeline.commands.reading import add_reading, progress_of_reading, read_traces_into
from pipeline.hints import command
from pipeline.terminal import counted

if TYPE_CHECKING:
    from labeled_traces.dataset import LabeledTrace
    from labeled_traces.readers.report import ReadReport
    from labeled_traces.row_file import RowFile

HELP = "Read traces and their labels from other systems' files into one file."
EXAMPLES = """\
examples:
  gpa-judges import traces/ --labels annotations/ --out data.jsonl           the format is recognised
  gpa-judges import *.jsonl --format openinference --out data.jsonl
  gpa-judges import gaia.parquet --out data.jsonl                            a table with a record a row
  gpa-judges import traces/ --labels labels/ --taxonomy mine.yaml --out data.jsonl
  gpa-judges import traces/ --labels labels.csv --columns trace_id=run,step=turn --steps-from 0 --out data.jsonl
  gpa-judges import mlflow --tracking-uri http://127.0.0.1:5000 --experiment agent --session s1 --out data.jsonl

formats (--format NAME, where the first records do not show it; files: JSON, JSON Lines, both also .gz; Parquet):
  dataset              what import and convert write, and rows of your own: {trace: {trace_id, spans}, errors, scores}
  mlflow               traces as JSON, rows of search_traces, OpenCode's plugin; a running MLflow has options of its own
  otlp                 OTLP as JSON, also as protobuf dumps it, with base64 ids; spans and log records
  openinference        spans one by one: ReadableSpan, Phoenix, Vercel; OpenInference's or GenAI's attributes
  adk                  sessions and evaluation sets of Google's ADK
  langfuse, langsmith, openai_agents, smolagents (the memory's steps), trulens
                       what these export
  trail, agentrx, who_and_when, mp_bench, agent_process_bench, agent_error_bench
                       benchmarks with people's labels, as they are published

A table of labels has a row for each thing that somebody said, with these columns, in any order and under other names
too (--columns): trace_id; span_id or step; category, or dimensions; impact (low, medium, high), description, evidence,
rater, time. Or a score (0-3, 3 is no error) with one dimension. Or `none` as category: the rater read the run and found
no error. Columns are also recognised by these names, with any case, spaces or hyphens in them:
  trace_id     trace, run_id, run, trajectory_id, trajectory
  span_id      span, location, error_span, span_ids
  step         step_number, step_index, step_id, mistake_step, turn, message_index
  dimensions   dimension, gpa_dimension, gpa_dimensions
  category     error_category, failure_category, error_type, failure_type, label
  impact       severity, error_impact
  description  rationale, explanation, comment, comments, reason, notes, note, details
  evidence     quote, quoted, snippet
  rater        annotator, labeler, labeller, reviewer, author, annotated_by, source_id, who
  time         timestamp, created_at, updated_at, labeled_at, annotated_at, date, create_time, when
  score        rating, grade

What was repaired or left out is counted by kind; it is an error only if nothing could be read, or with --strict.
A row of a table of labels that cannot be read is one, unless --allow-missing: nobody wants to lose labels.
Whatever the files hold of the answer (gold answers, rewards, annotator notes) is kept apart and never shown to a judge.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    add_live(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write (JSON Lines)")
    parser.add_argument("--force", action="store_true", help="write over another file that is there")


def run(args: argparse.Namespace, out: Output) -> int:
    from labeled_traces.readers import TWICE
    from labeled_traces.readers.labels.joining import unjoined_lines
    from labeled_traces.row_file import RowFile
    from pipeline.tally import Tally

    tally = Tally()
    with RowFile(args.out) as file:

        def fill(rows: Iterator[tuple[str, LabeledTrace]], said: ReadReport) -> RowFile:
            with progress_of_reading(args, said, lambda: counted(len(file), "trace")):
                return file.fill(rows, lambda twice: said.add(TWICE, twice), said.leave_out, tally.add)

        _, report = read_traces_into(args, fill)
        if group := tally.crowded(file):
            report.add("group with more than a fifth of all traces", group)
        if not args.force:
            check_same(args.out, file.new)
        file.keep()
    counts = tally.counts(report.unmapped)
    lines = [f"{counted(counts['traces'], 'trace')}: {counts['labelled']} with labels, {counts['clean']} clean"]
    if counts["presumed"]:
        lines[0] += f" ({counts['presumed']} of them presumed: they reached their goal, nobody looked)"
    if counts["unknown"]:
        lines[0] += (
            f", {counts['unknown']} that nobody looked at and that may have failed (no false alarm is counted there)"
        )
    lines += _label_lines(counts, report.unmapped)
    lines += [*report.notes, *unjoined_lines(report)]
    if report.stripped:
        lines.append("kept from the judges, as it may hold the answer:")
        lines += [f"  {name}: {count} x" for name, count in report.stripped.most_common()]
    if report.counts:
        lines += ["warnings:", *(f"  {line}" for line in report.lines())]
    lines += [f"data: {args.out}", "", "Next:"]
    lines += _next_lines(args.out, bool(counts["labels"] or counts["scores"] or counts["clean"]))
    out.result(
        "\n".join(lines),
        {
            "data": str(args.out),
            **counts,
            "unjoined": report.unjoined,
            "stripped": dict(report.stripped),
            "notes": report.notes,
            "warnings": report.to_json(),
        },
    )
    return 0


def _label_lines(counts: Mapping[str, Any], unmapped: Counter[str]) -> list[str]:
    from pipeline.results import counted_labels

    inside = counts["labels"] - counts["outside_gpa"] - counts["unmapped"]
    lines = [counted_labels(inside, counts["outside_gpa"])]
    if inside:
        lines[-1] += "; by dimension, one of several counts in each:"
        lines += [f"  {name}: {counted(n, 'label')}" for name, n in counts["dimensions"].items()]
    if counts["errors"] < counts["labels"]:
        lines.append(
            f"  {counted(counts['labels'], 'label')} are about {counted(counts['errors'], 'error')}: several raters "
            "saw the same one"
        )
    if unmapped:
        names = ", ".join(f"{name!r} {count} x" for name, count in unmapped.most_common())
        lines.append(f"  not in the taxonomy, so of no dimension unless their labels name one: {names}")
        lines.append(f"    {_taxonomy_for(unmapped)}")
    return lines


def _next_lines(data: Path, labelled: bool) -> list[str]:
    if labelled:
        return [
            f"  {command('evaluate', data, '--model', 'MODEL')}",
            f"  {command('split', data, '--out', 'split.json')}",
        ]
    return [
        f"  {command('label', 'export', data, '--table', 'labels.csv')}   (or to MLflow: --tracking-uri)",
        "  or the same import with --labels FILE, where people have labelled these traces already",
    ]


def _taxonomy_for(unmapped: Iterable[str]) -> str:
    """Where the categories may be found."""
    from labeled_traces.taxonomy import load_taxonomy, shipped

    wanted = list(unmapped)
    having = [name for name in shipped() if all(load_taxonomy(name).find(category) for category in wanted)]
    if having:
        return f"--taxonomy {having[0]} has {'it' if len(wanted) == 1 else 'them all'}"
    return "add them to a taxonomy file: --taxonomy FILE (as labeled_traces/taxonomies/trail.yaml)"
