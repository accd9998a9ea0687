"""The statistics and warnings of a data set as plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from labeled_traces.label import Impact
from pipeline.inspect.checks import Warned
from pipeline.report.table import columns
from pipeline.terminal import Terminal, counted, one_line

_MOST = 12
_BAR = 40
_INSET = " " * 6


def statistics_text(numbers: Mapping[str, Any], limit: int, terminal: Terminal) -> str:
    looked = ", ".join(f"{count} {name}" for name, count in numbers["looked_at"].items())
    head = f"{counted(numbers['traces'], 'trace')} in {counted(numbers['groups'], 'group')}, {numbers['clean']:,} clean"
    parts = [f"{head}\nwhat no label means there: {looked}", _sizes(numbers), _bars(numbers["tokens"], terminal)]
    parts += [_lengths(numbers, limit), _labels(numbers), _raters(numbers["raters"])]
    kinds = ", ".join(f"{name} {count:,}" for name, count in numbers["kinds"].items())
    lines = [f"spans: {kinds}; {numbers['failed_spans']:,} failed"]
    lines.append(f"agents: {_list(numbers['agents'].items())}")
    calls = [(name, f"{of['calls']:,}{_failed(of['failed'])}") for name, of in _of(numbers, "tools")]
    lines.append(f"tools: {_list(calls)}")
    lines.append(f"models: {_list((name, _asked(of)) for name, of in _of(numbers, 'models'))}")
    return "\n\n".join(part for part in [*parts, "\n".join(lines)] if part)


def warnings_text(warned: Sequence[Warned], terminal: Terminal) -> str:
    if not warned:
        return "nothing to warn of"
    lines = ["warnings:"]
    for one in warned:
        lines.append(terminal.paint(f"  {one.count:,} x {one.kind}", "yellow"))
        for text in (f"e.g. {one.example}", one.advice):
            lines.append(terminal.wrap(text, _INSET))
    return "\n".join(lines)


def asked_and_answered(tokens: Mapping[str, int]) -> str:
    """`12+3 tokens`; what was not counted is no zero."""
    given = [f"{tokens[name]:,}" if name in tokens else "?" for name in ("prompt", "completion")]
    return f"{'+'.join(given)} tokens" if given != ["?", "?"] else "tokens not recorded"


def _asked(model: Mapping[str, int]) -> str:
    of_them = f" in {model['counted']:,} of them" if 0 < model["counted"] < model["calls"] else ""
    return f"{counted(model['calls'], 'call')}, {asked_and_answered(model)}{of_them}"


def _failed(count: int) -> str:
    return f" ({count:,} failed)" if count else ""


def _of(numbers: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    return list(numbers[name].items())


def _list(items: Any) -> str:
    shown = [f"{one_line(name) or '(no name)'} {count}" for name, count in items]
    more = [f"{len(shown) - _MOST} more"] if len(shown) > _MOST else []
    return ", ".join([*shown[:_MOST], *more]) or "none"


def _sizes(numbers: Mapping[str, Any]) -> str:
    names = ("min", "median", "p90", "max", "total")
    rows = [["of a trace", *names]]
    rows += [[name, *(f"{numbers[name][key]:,}" for key in names)] for name in ("spans", "tokens")]
    return columns(rows)


def _bars(spread: Mapping[str, Any], terminal: Terminal) -> str:
    most = max(count for _, _, count in spread["histogram"])
    mark = "#" if terminal.simple else "█"
    ends = max(len(f"{below:,}") for _, below, _ in spread["histogram"])
    return "\n".join(
        f"{low:>{ends},} to {below - 1:<{ends},} tokens  {mark * -(-count * _BAR // most)}{' ' if count else ''}{count}"
        for low, below, count in spread["histogram"]
    )


def _lengths(numbers: Mapping[str, Any], limit: int) -> str:
    longest = ", ".join(f"{one_line(one['trace_id'])} ({one['tokens']:,} tokens)" for one in numbers["longest"][:3])
    lines = [f"longest: {longest}"]
    if not (cut := numbers["too_long"]):
        return f"{lines[0]}\nall fit the limit of {limit:,} tokens (--trace-tokens), as UTF-8 bytes / 4"
    lines.append(f"{len(cut):,} do not fit the limit of {limit:,} tokens (--trace-tokens) and are read cut:")
    for one in cut[:_MOST]:
        out = f", {counted(one['spans_left_out'], 'span')}" if one["spans_left_out"] else ""
        lines.append(
            f"  {one_line(one['trace_id'])}: {one['tokens']:,} tokens; {one['cut']:,} characters{out} left out"
        )
    return "\n".join([*lines, *([f"  and {len(cut) - _MOST:,} more"] if len(cut) > _MOST else [])])


def _labels(numbers: Mapping[str, Any]) -> str:
    if not numbers["error_labels"] and not any(numbers["scores"].values()):
        return "no labels yet: gpa-judges label export, or import --labels FILE"
    impacts = [str(impact) for impact in Impact]
    rows = [["labels", *impacts, "errors", "scores"]]
    for name, counts in numbers["labels"].items():
        each = [str(counts[impact]) for impact in impacts]
        rows.append([name, *each, str(sum(counts.values())), str(numbers["scores"][name])])
    said = f"{counted(numbers['error_labels'], 'error label')} about {counted(numbers['errors'], 'error')}, "
    return f"{columns(rows)}\n{said}{numbers['outside_gpa']:,} outside GPA; one of several dimensions counts in each"


def _raters(raters: Mapping[str, Mapping[str, int]]) -> str:
    if not raters:
        return ""
    keys = ("traces", "errors", "scores")
    return columns(
        [["rater", *keys], *([one_line(n), *(str(of.get(key, 0)) for key in keys)] for n, of in raters.items())]
    )
