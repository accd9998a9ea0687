from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.commands.output import Output, save_new
from pipeline.commands.reading import add_reading, read_traces
from pipeline.hints import command

if TYPE_CHECKING:
    from labeled_traces.dataset import Dataset

HELP = "Read traces and their labels from other systems' files into one file."
EXAMPLES = """\
examples:
  gpa-judges import traces/ --labels annotations/ --out data.jsonl           the format is recognised
  gpa-judges import *.jsonl --format openinference --out data.jsonl
  gpa-judges import traces/ --labels labels/ --taxonomy mine.yaml --out data.jsonl
  gpa-judges import traces/ --labels labels.csv --columns trace_id=run,step=turn --steps-from 0 --out data.jsonl

What was repaired or left out is counted by kind; it is an error only if nothing could be read, or with --strict.
Whatever the files hold of the answer (gold answers, rewards, annotator notes) is kept apart and never shown to a judge.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_reading(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write (JSON Lines)")
    parser.add_argument("--force", action="store_true", help="write over another file that is there")


def run(args: argparse.Namespace, out: Output) -> int:
    from labeled_traces.files import check_writable
    from labeled_traces.groups import crowded
    from labeled_traces.readers.joining import unjoined_lines
    from pipeline.results import counted_labels

    check_writable(args.out)
    dataset, report = read_traces(args)
    save_new(args.out, dataset.save, force=args.force)
    if group := crowded(tuple(dataset)):
        report.add("group with more than a fifth of all traces", group)
    counts = label_counts(dataset, report.unmapped)
    lines = [f"{counts['traces']} traces: {counts['labelled']} with labels, {counts['clean']} clean"]
    if counts["unknown"]:
        lines[0] += (
            f", {counts['unknown']} that nobody looked at and that may have failed (no false alarm is counted there)"
        )
    inside = counts["labels"] - counts["outside_gpa"] - counts["unmapped"]
    lines.append(counted_labels(inside, counts["outside_gpa"]))
    if inside:
        lines[-1] += "; by dimension, one of several counts in each:"
        lines += [f"  {name}: {n} labels" for name, n in counts["dimensions"].items()]
    if counts["errors"] < counts["labels"]:
        lines.append(
            f"  {counts['labels']} labels are about {counts['errors']} errors: several raters saw the same one"
        )
    if report.unmapped:
        names = ", ".join(f"{name!r} {count} x" for name, count in report.unmapped.most_common())
        lines.append(f"  not in the taxonomy: {counts['unmapped']} labels, judged by no dimension: {names}")
        lines.append("    add them to a taxonomy file: --taxonomy FILE (as labeled_traces/taxonomies/trail.yaml)")
    lines += [*report.notes, *unjoined_lines(report)]
    if report.counts:
        lines += ["warnings:", *(f"  {line}" for line in report.lines())]
    lines += [f"data: {args.out}", "", "Next:"]
    lines += [f"  {command('evaluate', args.out, '--model', 'MODEL')}"]
    lines += [f"  {command('split', args.out, '--out', 'split.json')}"]
    out.result(
        "\n".join(lines),
        {
            "data": str(args.out),
            **counts,
            "unjoined": report.unjoined,
            "notes": report.notes,
            "warnings": report.to_json(),
        },
    )
    return 0


def label_counts(dataset: Dataset, unmapped: Counter[str]) -> dict[str, Any]:
    """Traces and labels: how many, and of which dimensions. A label of two dimensions counts in both.

    `unmapped`: labels by categories that the taxonomy does not have; they are not counted as outside GPA.
    """
    from labeled_traces.label import DIMENSIONS

    errors = [error for row in dataset for error in row.errors]
    found = Counter(name for error in errors for name in error.dimensions)
    clean = sum(row.is_clean for row in dataset)
    labelled = sum(bool(row.errors or row.scores) and not row.is_clean for row in dataset)
    return {
        "traces": len(dataset),
        "labelled": labelled,
        "clean": clean,
        "unknown": len(dataset) - labelled - clean,
        "labels": len(errors),
        "errors": sum(len(row.distinct_errors) for row in dataset),
        "dimensions": {name: found[name] for name in DIMENSIONS},
        "outside_gpa": sum(not error.dimensions and error.category not in unmapped for error in errors),
        "unmapped": sum(not error.dimensions and error.category in unmapped for error in errors),
        "scores": sum(len(row.scores) for row in dataset),
        "hash": dataset.hash,
    }
