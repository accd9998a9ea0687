from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.commands.arguments import seed
from pipeline.commands.output import Output

if TYPE_CHECKING:
    from labeled_traces.split import SplitManifest

HELP = "Split labelled traces into trainset, valset and testset; the same task or content never lands in two parts."
EXAMPLES = """\
examples:
  gpa-judges split data.jsonl --out split.json
  gpa-judges split data.jsonl --out split.json --seed 7 --fractions 0.4 0.2 0.4

In an experiment file:  split: {manifest: split.json}

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
    from labeled_traces.groups import crowded
    from labeled_traces.label import DIMENSIONS, Impact
    from labeled_traces.split import FRACTIONS, make_split
    from pipeline.report.table import columns

    dataset = Dataset.load(args.data)
    manifest = make_split(dataset, args.seed, tuple(args.fractions or FRACTIONS))
    group = crowded(tuple(dataset))
    if args.out.exists():
        _check_same(args.out, manifest)
    else:
        manifest.save(args.out)
    parts = list(manifest.parts)
    rows = [["", *parts], ["traces", *(str(len(manifest.parts[part])) for part in parts)]]
    rows.append(["clean", *(str(manifest.counts[part].get("clean", 0)) for part in parts)])
    for name in DIMENSIONS:
        counts = [sum(manifest.counts[part].get(f"{name}/{impact}", 0) for impact in Impact) for part in parts]
        rows.append([f"{name} labels", *map(str, counts)])
    errors = {part: [error for row in dataset.subset(manifest.parts[part]) for error in row.errors] for part in parts}
    inside = [sum(bool(error.dimensions) for error in errors[part]) for part in parts]
    rows.insert(3, ["error labels", *map(str, inside)])
    rows.append(["outside GPA", *(str(len(errors[part]) - n) for part, n in zip(parts, inside, strict=True))])
    key = yaml.safe_dump({"manifest": str(args.out)}, default_flow_style=True, allow_unicode=True, width=10**6).strip()
    table = f"{columns(rows)}\na label of several dimensions counts in each"
    table += f"\n\nwarning: {group}" if group else ""
    text = f"{table}\n\nmanifest: {args.out}\n\nNext, in an experiment file:\n  split: {key}"
    counts_of = {part: {"traces": len(ids), **manifest.counts[part]} for part, ids in manifest.parts.items()}
    document = {"manifest": str(args.out), "hash": manifest.hash, "seed": args.seed, "parts": counts_of}
    out.result(text, {**document, "warnings": [group] if group else []})
    return 0


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
