from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.commands.output import Output, save_new
from pipeline.terminal import counted, one_line

if TYPE_CHECKING:
    from pipeline.metrics.estimate import Estimate
    from pipeline.metrics.raters import Agreement

HELP = "How far raters agree, where they do not, and how often one finds another's label: the human ceiling."
EXAMPLES = """\
examples:
  gpa-judges raters data.jsonl
  gpa-judges raters data.jsonl --reduce majority --out majority.jsonl

rules: majority (more than half of those who read the run; where half of them marked an error, a finding in that trace
is neither right nor wrong), union, newest (by the times of labels), rater:NAME
In an experiment file:  data: {path: data.jsonl, raters: majority}
"""
_SHOWN = 10
_UNNAMED = (
    "Labels that name no rater count as those of one. To tell raters apart: a column `rater` in the table of labels, "
    "--raters NAME of `label export`, or in MLflow the source of each assessment."
)
_NAMED = 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, metavar="DATA", help="a file that `gpa-judges import` wrote")
    parser.add_argument("--reduce", metavar="RULE", help="write the traces with the labels of one voice; needs --out")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file to write (JSON Lines)")
    parser.add_argument("--force", action="store_true", help="write over another file that is there")


def run(args: argparse.Namespace, out: Output) -> int:
    from labeled_traces.dataset import Dataset
    from pipeline.config import PipelineError
    from pipeline.metrics.disagreements import disagreements
    from pipeline.metrics.raters import rater_agreement

    if (args.reduce is None) != (args.out is None):
        raise PipelineError("--reduce RULE and --out FILE: accepted are both or none of the two")
    if args.reduce is not None:
        _reduce(args, out)
        return 0
    rows = list(Dataset.load(args.data))
    found, differ = rater_agreement(rows), disagreements(rows)
    out.result("\n\n".join([_tables(found), _listed(differ)]), {**_document(found), "disagreements": differ})
    return 0


def _reduce(args: argparse.Namespace, out: Output) -> None:
    from labeled_traces.dataset import Dataset
    from labeled_traces.raters import load

    given, reduced = Dataset.load(args.data), load(args.data, args.reduce)
    save_new(args.out, reduced.save, force=args.force)
    before, labels = (sum(len(row.errors) for row in rows) for rows in (given, reduced))
    clean = [sum(row.is_clean for row in rows) for rows in (given, reduced)]
    tied = sum(row.clean == "partial" != given[row.trace_id].clean for row in reduced)
    lines = [f"{counted(len(reduced), 'trace')}: {counted(before, 'error label')} became {labels:,} ({args.reduce})"]
    lines.append(f"clean traces: {clean[0]:,} before, {clean[1]:,} now")
    if tied:
        lines.append(
            f"{counted(tied, 'trace')} where as many raters marked an error as did not: a finding there is neither "
            "right nor wrong"
        )
    document = {"data": str(args.out), "rule": args.reduce, "traces": len(reduced), "labels": labels}
    document |= {"labels_before": before, "clean": clean[1], "clean_before": clean[0], "tied": tied}
    out.result("\n".join([*lines, f"data: {args.out}"]), document)


def _tables(found: Agreement) -> str:
    from pipeline.report.table import INTERVAL, columns

    readers = sorted(found.read.items(), key=lambda one: -one[1])
    read = ", ".join(f"{_named(name)} {count}" for name, count in readers[:_NAMED])
    read += f" and {len(readers) - _NAMED} more raters" if len(readers) > _NAMED else ""
    head = f"whole runs read: {read or 'nobody is named'}; by two or more: {found.traces}"
    unnamed = [_UNNAMED] if "" in found.read else []
    if not found.pairs:
        alone = "two or more have labelled, but no trace twice" if len(found.read) > 1 else "one rater alone"
        why = alone if found.read else "nobody has labelled"
        return "\n\n".join([head, *unnamed, f"{why}: there is nothing to compare"])
    cells = [[name, *map(_cell, _agreement(parts))] for name, parts in found.agreement.items()]
    lines = [head, *unnamed, "", columns([["all raters", "same verdict", "alpha", "alpha of spans"], *cells])]
    total = found.agreement["total"]
    ordinal = [
        f"{what} {_cell(total[key])}" for what, key in (("worst impact", "impact_alpha"), ("scores", "score_alpha"))
    ]
    lines += [f"ordinal alpha, all dimensions: {', '.join(ordinal)}"]
    shown = found.pairs[:_SHOWN]
    both = [
        [_pair(pair.raters, " and "), str(pair.traces), *map(_cell, _agreement(pair.agreement["total"]))]
        for pair in shown
    ]
    lines += ["", columns([["two raters", "traces", "same verdict", "alpha", "alpha of spans"], *both])]
    if left := len(found.pairs) - len(shown) + found.more_pairs:
        of_all = f" (--json has {len(found.pairs)})" if len(found.pairs) > len(shown) else ""
        lines += [f"and {left:,} more pairs, which have fewer traces in common{of_all}"]
    ways = [["labels of, found by", "traces", "labels", "same span", "or parent, child"]]
    for pair in shown:
        ways += [
            [_pair(way, " by "), str(pair.traces), *_ceiling(parts["total"])] for way, parts in pair.found_by.items()
        ]
    ways += [[f"all: {name}", "", *_ceiling(parts)] for name, parts in found.ceiling.items()]
    lines += ["", columns(ways), f"in brackets: {INTERVAL}"]
    return "\n".join([*lines, *_reasons(found)])


def _agreement(parts: dict[str, Estimate]) -> list[Estimate]:
    return [parts[key] for key in ("error_raw_agreement", "error_alpha", "span_alpha")]


def _ceiling(parts: dict[str, Estimate]) -> list[str]:
    exact, lenient = parts["localization"], parts["localization_lenient"]
    return [str(exact.n), _cell(exact), _cell(lenient)]


def _cell(estimate: Estimate) -> str:
    from pipeline.report.table import with_interval

    return with_interval(estimate if estimate.value is not None else None)


def _reasons(found: Agreement) -> list[str]:
    """Why there is no number, where the tables have none."""
    parts = [*found.agreement.values(), *found.ceiling.values()]
    for pair in found.pairs[:_SHOWN]:
        parts += [pair.agreement["total"], *(way["total"] for way in pair.found_by.values())]
    given = [one.reason for part in parts for one in part.values() if one.value is None and one.reason]
    reasons = dict.fromkeys(reason.removeprefix("alpha undefined: ") for reason in given)
    return [f"- undefined: {'; '.join(reasons)}"] if reasons else []


def _named(name: str) -> str:
    return one_line(name) or "(no name)"


def _pair(names: tuple[str, str], between: str) -> str:
    return between.join(map(_named, names))


def _listed(differ: list[dict[str, Any]]) -> str:
    more = f", the first {_SHOWN} (all: --json)" if len(differ) > _SHOWN else ""
    lines = [f"where they disagree: {len(differ)} place{'' if len(differ) == 1 else 's'}{more}"]
    for row in differ[:_SHOWN]:
        if "scores" in row:
            said = ", ".join(f"{_named(name)} {score}" for name, score in row["scores"].items())
            lines.append(f"  trace {row['trace_id']!r}, score of {row['dimension']}: {said}")
            continue
        said = "; ".join(
            f"{_named(name)}: {', '.join(one_line(one['category']) for one in words) or 'nothing'}"
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
        "more_pairs": found.more_pairs,
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
