from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands.arguments import add_json
from pipeline.commands.output import Output, save_new
from pipeline.hints import command

if TYPE_CHECKING:
    from labeled_traces.dataset import LabeledTrace

HELP = "Send traces to the people who label them (MLflow's review pages, or a table), and take their labels back."
ENTERED = """\
In MLflow an error is feedback `gpa_error` at its span: its value is the category, or `none` where the run has no error;
a score is feedback `gpa_<dimension>`, 0 to 3."""
EXAMPLES = f"""\
examples:
  gpa-judges label export data.jsonl --tracking-uri http://127.0.0.1:5000 --experiment to-label --raters ann ben
  gpa-judges label import data.jsonl --tracking-uri http://127.0.0.1:5000 --experiment to-label --out labelled.jsonl
  gpa-judges label export data.jsonl --table ann.csv --raters ann                 a table, for any spreadsheet
  gpa-judges label import data.jsonl --table ann.csv --out labelled.jsonl

{ENTERED}
People see no verdict of a judge and no earlier label. All raters are kept. The same import again adds what is new, and
takes back what people have changed or withdrawn.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    send = actions.add_parser("export", help="traces to the people who label them")
    take = actions.add_parser("import", help="their labels into the data")
    for action in (send, take):
        action.add_argument("data", type=Path, metavar="DATA", help="what import wrote")
        action.add_argument("--tracking-uri", metavar="URI", help="where MLflow is")
        action.add_argument("--experiment", metavar="NAME", help="the experiment for labelling; export makes it")
        action.add_argument("--table", type=Path, metavar="FILE", help="a table (CSV) instead")
        action.add_argument("--taxonomy", default="trail", metavar="NAME|FILE", help="the categories of errors (trail)")
        action.add_argument("--force", action="store_true", help="write over another file that is there")
        add_json(action, argparse.SUPPRESS)
    send.add_argument("--raters", nargs="+", default=[], metavar="NAME", help="who labels: each gets a review queue")
    said = "show raters what judges said (judgments.jsonl of evaluate): labels made so are biased towards it"
    send.add_argument("--with-verdicts", type=Path, metavar="FILE", help=said)
    said = (
        "labels in a table that cannot be read, or of traces that are not there, are counted and listed, else an error"
    )
    take.add_argument("--allow-missing", action="store_true", help=said)
    take.add_argument("--out", type=Path, required=True, metavar="FILE", help="the file to write (JSON Lines)")


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.config import PipelineError

    by_mlflow = args.tracking_uri is not None and args.experiment is not None
    if by_mlflow == (args.table is not None) or (args.table and (args.tracking_uri or args.experiment)):
        raise PipelineError("where do people label? accepted are --tracking-uri URI --experiment NAME, or --table FILE")
    {"export": _export, "import": _import}[args.step](args, out)
    return 0


def _export(args: argparse.Namespace, out: Output) -> None:
    from labeled_traces.dataset import Dataset
    from labeled_traces.files import write_lines
    from labeled_traces.taxonomy import load_taxonomy
    from pipeline.config import PipelineError

    rows = tuple(Dataset.load(args.data))
    if args.table is not None:
        from pipeline.labelling.table import table_lines

        if args.with_verdicts or len(args.raters) > 1:
            raise PipelineError("--table: accepted is one rater, and no --with-verdicts: each rater gets a table")
        rater = args.raters[0] if args.raters else ""
        save_new(args.table, lambda path: write_lines(path, table_lines(rows, rater)), force=args.force)
        lines = [f"{len(rows)} traces to label: {args.table}", "", "Next, when it is filled in:"]
        lines.append(f"  {command('label', 'import', args.data, '--table', args.table, '--out', 'labelled.jsonl')}")
        out.result("\n".join(lines), {"table": str(args.table), "traces": len(rows)})
        return
    from pipeline.labelling.mlflow import send

    categories = tuple(load_taxonomy(args.taxonomy).dimensions)
    sent = send(rows, args.tracking_uri, args.experiment, categories, args.raters)
    lines = [f"{sent.traces} traces to label in experiment {sent.experiment!r}; {sent.there} were there already"]
    if sent.queues is None:
        lines.append(f"no review queues: {sent.reason}; people label on the page of each trace")
    else:
        lines.append(f"review queues: {', '.join(sent.queues)}")
    lines.append(f"page: {sent.page}" if sent.page else "page: start `mlflow server` on this store")
    lines.append(ENTERED)
    shown = _show_verdicts(args, rows) if args.with_verdicts else 0
    if shown:
        lines.append(f"WARNING: {shown} traces show what judges said: labels made so are biased towards it")
    words = ("--tracking-uri", args.tracking_uri, "--experiment", args.experiment, "--out", "labelled.jsonl")
    lines += ["", "Next, when people have labelled:", f"  {command('label', 'import', args.data, *words)}"]
    document = {**vars(sent), "queues": list(sent.queues or ()), "with_verdicts": shown}
    out.result("\n".join(lines), document)


def _show_verdicts(args: argparse.Namespace, rows: tuple[LabeledTrace, ...]) -> int:
    from pipeline.evaluate import load_judgments
    from pipeline.labelling.mlflow import show_verdicts
    from pipeline.labelling.verdicts import as_assessments

    judgments = load_judgments(args.with_verdicts)
    said = ((row, list(as_assessments(one for one in judgments if one.trace_id == row.trace_id))) for row in rows)
    return show_verdicts(args.tracking_uri, args.experiment, said)


def _import(args: argparse.Namespace, out: Output) -> None:
    from labeled_traces.dataset import Dataset
    from labeled_traces.readers.report import ReadOptions
    from labeled_traces.taxonomy import load_taxonomy
    from pipeline.labelling.merge import SAW_VERDICTS, Merged, merge
    from pipeline.labelling.mlflow import receive
    from pipeline.labelling.table import read_table

    data = Dataset.load(args.data)
    options = ReadOptions(load_taxonomy(args.taxonomy), allow_missing=args.allow_missing)
    if args.table is not None:
        place, pairs = f"table {args.table.name}", read_table(tuple(data), args.table, options)
    else:
        place = f"mlflow experiment {args.experiment}"
        pairs = receive(data, args.tracking_uri, args.experiment, options)
    counts = Merged()
    merged = {row.trace_id: merge(row, said, place, counts) for row, said in pairs}
    labelled = Dataset(merged.get(row.trace_id, row) for row in data)
    save_new(args.out, labelled.save, force=args.force)
    raters = sorted({rater for row in labelled for rater in row.raters})
    biased = sum(bool(row.metadata.get(SAW_VERDICTS)) for row in labelled)
    lines = [
        f"{counts.added} labels added, {counts.known} were there already, {counts.withdrawn} taken back",
        f"raters of whole runs: {', '.join(raters) or 'none'}",
    ]
    if biased:
        lines.append(f"WARNING: of {biased} traces the raters saw what judges had said: their labels are biased")
    if options.report.counts:
        lines += ["warnings:", *(f"  {line}" for line in options.report.lines())]
    lines += [f"data: {args.out}", "", "Next:", f"  {command('raters', args.out)}"]
    document = {**vars(counts), "raters": raters, "biased": biased, "data": str(args.out)}
    out.result("\n".join(lines), {**document, "warnings": options.report.to_json()})
