from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.commands.output import Output, save_new

if TYPE_CHECKING:
    from pipeline.metrics.estimate import Estimate
    from pipeline.metrics.raters import Agreement

HELP = "How far raters agree, where they do not, and how often one finds another's label: the human ceiling."
EXAMPLES = """\
examples:
  gpa-judges raters data.jsonl
  gpa-judges raters data.jsonl --reduce majority --out majority.jsonl

rules: majority (more than half of those who read the run), union, newest, rater:NAME
In an experiment file:  data: {path: data.jsonl, raters: majority}
"""
_SHOWN = 10


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="a file that `gpa-judges import` wrote")
    parser.add_argument("--reduce", metavar="RULE", help="write the traces with the labels of one voice; needs --out")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file to write (JSON Lines)")
    parser.add_argument("--force", action="store_true", help="write over another file that is there")


def run(args: argparse.Namespace, out: Output) -> int:
    from labeled_traces.dataset import Dataset
    from labeled_traces.raters import load
    from pipeline.config import PipelineError
    from pipeline.metrics.raters import disagreements, rater_agreement

    if (args.reduce is None) != (args.out is None):
        raise PipelineError("--reduce RULE and --out FILE: accepted are both or none of the two")
    if args.reduce is not None:
        reduced = load(args.data, args.reduce)
        save_new(args.out, reduced.save, force=args.force)
        labels = sum(len(row.errors) for row in reduced)
        text = f"{len(reduced)} traces with {labels} error labels by the rule {args.reduce}\ndata: {args.out}"
        out.result(text, {"data": str(args.out), "rule": args.reduce, "traces": len(reduced), "labels": labels})
        return 0
    rows = list(Dataset.load(args.data))
    found, differ = rater_agreement(rows), disagreements(rows)
    out.result("\n\n".join([_tables(found), _listed(differ)]), {**_document(found), "disagreements": differ})
    return 0


def _tables(found: Agreement) -> str:
    from pipeline.report.table import INTERVAL, columns

    read = ", ".join(f"{name or '(no name)'} {count}" for name, count in found.read.items())
    head = f"whole runs read: {read or 'nobody is named'}; by two or more: {found.traces}"
    cells = [
        [name, *(_cell(found.agreement[name][key]) for key in ("error_raw_agreement", "error_alpha", "span_alpha"))]
        for name in found.agreement
    ]
    lines = [head, "", columns([["all raters", "same verdict", "alpha", "alpha of spans"], *cells])]
    lines += [
        f"ordinal alpha, all dimensions: worst impact {_cell(found.agreement['total']['impact_alpha'])}, "
        f"scores {_cell(found.agreement['total']['score_alpha'])}"
    ]
    if not found.pairs:
        return "\n".join([*lines, "", "one rater alone: there is nobody to agree with"])
    both = [
        [
            " and ".join(name or "(no name)" for name in pair.raters),
            str(pair.traces),
            *(_cell(pair.agreement["total"][key]) for key in ("error_raw_agreement", "error_alpha", "span_alpha")),
        ]
        for pair in found.pairs
    ]
    lines += ["", columns([["two raters", "traces", "same verdict", "alpha", "alpha of spans"], *both])]
    ways = [["labels of, found by", "traces", "labels", "same span", "or parent, child"]]
    for pair in found.pairs:
        ways += [
            [" by ".join(name or "(no name)" for name in way), str(pair.traces), *_ceiling(parts["total"])]
            for way, parts in pair.found_by.items()
        ]
    ways += [[f"all: {name}", "", *_ceiling(parts)] for name, parts in found.ceiling.items()]
    lines += ["", columns(ways), f"in brackets: {INTERVAL}"]
    return "\n".join(lines)


def _ceiling(parts: dict[str, Estimate]) -> list[str]:
    exact, lenient = parts["localization"], parts["localization_lenient"]
    return [str(exact.n), _cell(exact), _cell(lenient)]


def _cell(estimate: Estimate) -> str:
    from pipeline.report.table import with_interval

    return with_interval(estimate) if estimate.value is not None else f"undefined: {estimate.reason}"


def _listed(differ: list[dict[str, Any]]) -> str:
    more = f", the first {_SHOWN} (all: --json)" if len(differ) > _SHOWN else ""
    lines = [f"where they disagree: {len(differ)} places{more}"]
    for row in differ[:_SHOWN]:
        if "scores" in row:
            said = ", ".join(f"{name or '(no name)'} {score}" for name, score in row["scores"].items())
            lines.append(f"  trace {row['trace_id']!r}, score of {row['dimension']}: {said}")
            continue
        said = "; ".join(
            f"{name or '(no name)'}: {', '.join(one['category'] for one in words) or 'nothing'}"
            for name, words in row["said"].items()
        )
        lines.append(f"  trace {row['trace_id']!r}, span {row['span_id'] or 'not named'}: {said}")
    return "\n".join(lines)


def _document(found: Agreement) -> dict[str, Any]:
    def numbers(parts: dict[str, dict[str, Estimate]]) -> dict[str, Any]:
        return {name: {key: one.to_json() for key, one in metrics.items()} for name, metrics in parts.items()}

    return {
        "read": dict(found.read),
        "traces": found.traces,
        "agreement": numbers(found.agreement),
        "ceiling": numbers(found.ceiling),
        "pairs": [
            {
                "raters": list(pair.raters),
                "traces": pair.traces,
                "agreement": numbers(pair.agreement),
                "localization": [
                    {"labels_of": truth, "found_by": finder, **numbers(parts)}
                    for (truth, finder), parts in pair.found_by.items()
                ],
            }
            for pair in found.pairs
        ],
    }
