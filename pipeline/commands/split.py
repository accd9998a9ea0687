from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.commands.output import Output

HELP = "Split labelled traces into trainset, valset and testset; the same task or content never lands in two parts."
EXAMPLES = """\
examples:
  gpa-judges split data.jsonl --out split.json
  gpa-judges split data.jsonl --out split.json --seed 7 --fractions 0.4 0.2 0.4

In an experiment file:  split: {manifest: split.json}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="a file that `gpa-judges import` wrote")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the manifest to write")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="(0)")
    parser.add_argument(
        "--fractions",
        type=float,
        nargs=3,
        metavar=("TRAIN", "VAL", "TEST"),
        help="shares of the three parts (0.35 0.25 0.4)",
    )


def run(args: argparse.Namespace, out: Output) -> int:
    from labeled_traces.dataset import Dataset
    from labeled_traces.label import DIMENSIONS, Impact
    from labeled_traces.split import FRACTIONS, make_split
    from pipeline.report.table import columns

    dataset = Dataset.load(args.data)
    manifest = make_split(dataset, args.seed, tuple(args.fractions or FRACTIONS))
    manifest.save(args.out)
    parts = list(manifest.parts)
    rows = [["", *parts], ["traces", *(str(len(manifest.parts[part])) for part in parts)]]
    rows.append(["clean", *(str(manifest.counts[part].get("clean", 0)) for part in parts)])
    for name in DIMENSIONS:
        counts = [sum(manifest.counts[part].get(f"{name}/{impact}", 0) for impact in Impact) for part in parts]
        rows.append([f"{name} labels", *map(str, counts)])
    text = f"{columns(rows)}\n\nmanifest: {args.out}\n\nNext, in an experiment file:\n  split: {{manifest: {args.out}}}"
    counts_of = {part: {"traces": len(ids), **manifest.counts[part]} for part, ids in manifest.parts.items()}
    out.result(text, {"manifest": str(args.out), "hash": manifest.hash, "seed": args.seed, "parts": counts_of})
    return 0
