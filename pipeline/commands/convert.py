from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import Output, save_new
from pipeline.commands.reading import add_reading, read_traces
from pipeline.hints import command
from pipeline.terminal import counted

HELP = "Write labelled traces as MLflow's or OpenTelemetry's files; reading them back gives the same traces and labels."
EXAMPLES = """\
examples:
  gpa-judges convert data.jsonl --to mlflow --out traces.mlflow.jsonl
  gpa-judges convert data.jsonl --to otlp --out traces.otlp.jsonl
  gpa-judges convert langfuse.json --to otlp --without-labels --out for-others.jsonl

mlflow  a trace a line, as mlflow.entities.Trace.from_dict takes it; people's labels are its assessments
otlp    an export request a line (OTLP/JSON), with the attributes of OpenInference: for a collector, Phoenix, MLflow ...

OpenTelemetry's ids are hex: other ids get such ones, the same at each conversion. What a form has no place for (other
ids, groups, answers; in otlp all labels) is kept in the attribute gpa_judges.original, which `gpa-judges import` reads.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_reading(parser, "what import wrote, or files and folders that it reads")
    parser.add_argument("--to", required=True, choices=("mlflow", "otlp"), help="the form to write")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write (JSON Lines)")
    parser.add_argument(
        "--without-labels",
        action="store_true",
        help="leave out what is no part of the run: labels, raters, groups, answers, metadata",
    )
    parser.add_argument("--force", action="store_true", help="write over another file that is there")


def run(args: argparse.Namespace, out: Output) -> int:
    from labeled_traces.files import check_writable
    from labeled_traces.writers import Written, write

    check_writable(args.out)
    dataset, report = read_traces(args)
    done = Written()
    with_labels = not args.without_labels

    def save(path: Path) -> None:
        nonlocal done
        done = write(dataset, args.to, path, labels=with_labels)

    save_new(args.out, save, force=args.force)
    lines = [
        f"{counted(done.traces, 'trace')} with {counted(done.spans, 'span')} and {counted(done.labels, 'label')}, "
        f"as {args.to}"
    ]
    if done.renamed:
        lines.append(f"  ids that are no hex of OpenTelemetry's, so others now: {counted(done.renamed, 'trace')}")
    if done.kept:
        lines.append(
            f"  more than {args.to} has a place for, kept in gpa_judges.original: {counted(done.kept, 'trace')}"
        )
    if report.counts:
        lines += ["warnings:", *(f"  {line}" for line in report.lines())]
    lines += [f"file: {args.out}", "", "Read back:"]
    lines += [f"  {command('import', args.out, '--out', 'data.jsonl')}"]
    out.result("\n".join(lines), {"file": str(args.out), **vars(done), "warnings": report.to_json()})
    return 0
