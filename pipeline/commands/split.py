from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands.arguments import seed
from pipeline.commands.output import Output

if TYPE_CHECKING:
    from labeled_traces.split import SplitManifest
    from labeled_traces.split_report import Part

HELP = (
    "Split labelled traces into trainset, valset and testset; a task, session or content (or nearly) is in one alone."
)
EXAMPLES = """\
examples:
  gpa-judges split data.jsonl --out split.json
  gpa-judges split data.jsonl --out split.json --seed 7 --fractions 0.4 0.2 0.4

In an experiment file:  split: {manifest: split.json}

Near-duplicates share 75 % or more of the word pairs (TF-IDF) of the smaller trace and were given the same goal: copies
under other ids, with a few words changed, a key more, or without their end. Error labels are spread over the parts by
dimension and impact. A warning says what a testset is too small for: a share of n labels is known to within 0.15 (half
of a 95 % Wilson interval) from 39 on.

A file that holds another split is never written over: judges may have been tuned on traces that are held out now.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="a file that `gpa-judges import` wrote")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the manifest to write")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="(0)")
    parser.add_argument(
        "--fractions",
        type=float,
        nargs=3,
        metavar=("TRAIN", "VAL", "TEST"),
        help="shares of the three parts (0.35 0.25 0.4)",
    )


def run(args: argparse.Namespace, out: Output) -> int:
    import yaml

    from labeled_traces.dataset import Dataset
    from labeled_traces.groups import crowded, near
    from labeled_traces.near_duplicates import SHARED
    from labeled_traces.split import FRACTIONS, make_split
    from labeled_traces.split_report import parts_of, shortages

    dataset = Dataset.load(args.data)
    manifest = make_split(dataset, args.seed, tuple(args.fractions or FRACTIONS))
    if args.out.exists():
        _check_same(args.out, manifest)
    else:
        manifest.save(args.out)
    parts, links = parts_of(manifest, dataset), near(dataset)
    group = crowded(tuple(dataset), links)
    warnings = [*([group] if group else []), *shortages(parts)]
    copies = len({place for link in links for place in (link.first, link.second)})
    key = yaml.safe_dump({"manifest": str(args.out)}, default_flow_style=True, allow_unicode=True, width=10**6).strip()
    lines = [
        f"{_table(parts)}\na label of several dimensions counts in each",
        f"near-duplicates: {copies} traces share {SHARED:.0%} or more of what tells one of them from others, and stay "
        "together",
        *(f"warning: {warning}" for warning in warnings),
    ]
    text = "\n".join(lines) + f"\n\nmanifest: {args.out}\n\nNext, in an experiment file:\n  split: {key}"
    counts_of = {part: {"traces": len(ids), **manifest.counts[part]} for part, ids in manifest.parts.items()}
    document = {
        "manifest": str(args.out),
        "hash": manifest.hash,
        "seed": args.seed,
        "parts": {part: {**counts_of[part], **found.to_json()} for part, found in parts.items()},
        "near_duplicates": {"traces": copies, "threshold": SHARED},
        "warnings": warnings,
    }
    out.result(text, document)
    return 0


def _table(parts: Mapping[str, Part]) -> str:
    from labeled_traces.label import DIMENSIONS, Impact
    from pipeline.report.table import columns

    impacts = [str(impact) for impact in sorted(Impact, reverse=True)]

    def row(name: str, cell: Callable[[Part], object]) -> list[str]:
        return [name, *(str(cell(part)) for part in parts.values())]

    def labels(name: str) -> list[str]:
        cells = ([part.labels[name][impact] for impact in impacts] for part in parts.values())
        return [name, *(f"{sum(cell)}: {'/'.join(map(str, cell))}" for cell in cells)]

    rows = [
        ["", *parts],
        row("traces", lambda part: part.traces),
        row("groups", lambda part: part.groups),
        row("clean", lambda part: part.clean),
        row("error labels", lambda part: part.errors),
        *(labels(name) for name in DIMENSIONS),
        row("outside GPA", lambda part: part.outside),
    ]
    return f"{columns(rows)}\ngroups: of one task, session or content (or nearly); labels: {'/'.join(impacts)} impact"


def _check_same(path: Path, manifest: SplitManifest) -> None:
    from labeled_traces.split import SplitManifest
    from labeled_traces.trace import TraceError
    from pipeline.config import PipelineError

    try:
        what = "" if SplitManifest.load(path) == manifest else "another split (of other data, or with another seed)"
    except TraceError as error:
        what = f"something else ({error})"
    if what:
        raise PipelineError(
            f"{path} holds {what} and is not written over: accepted is another --out, or the same after you removed it "
            "(whatever was tuned on it is not to be validated on the new one)"
        )
