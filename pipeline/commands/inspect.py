from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.commands.arguments import add_price, amount, count, ledger, seconds, seed, whole
from pipeline.commands.output import Output
from pipeline.commands.reading import add_reading, read_traces

if TYPE_CHECKING:
    from labeled_traces.readers.report import ReadReport
    from pipeline.inspect.contents import Contents
    from pipeline.terminal import Terminal

HELP = "Look at labelled traces: statistics and warnings of a data set, or one trace as a tree, as text and its plan."
EXAMPLES = """\
examples:
  gpa-judges inspect data.jsonl                                   statistics, and what is likely to be wrong
  gpa-judges inspect traces/                                      the same of raw files, before importing them
  gpa-judges inspect data.jsonl --trace ID                        its tree, with people's labels at the spans
  gpa-judges inspect data.jsonl --trace ID --render --trace-tokens 8000       the text as judges read it, and the cuts
  gpa-judges inspect data.jsonl --trace ID --plan openai/gpt-5 --max-dollars 0.10

Without --plan no model is asked: shown are only passages that call themselves a plan or a to-do list. Colours only on
a terminal, and not where NO_COLOR is set.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_reading(parser, "what import wrote, or files and folders that it reads")
    parser.add_argument(
        "--trace", metavar="ID", help="show this trace; the beginning of its id, or the id in another form, will do"
    )
    parser.add_argument("--render", action="store_true", help="its text as judges read it, in place of the tree")
    parser.add_argument(
        "--trace-tokens", type=whole(256, 10_000_000), default=24_000, metavar="N", help="the limit (24000)"
    )
    parser.add_argument("--plan", metavar="MODEL", help="extract the plan of the trace with this model: one call")
    parser.add_argument("--endpoint", "--api-base", metavar="URL", help="base URL of an OpenAI-compatible server")
    parser.add_argument(
        "--ledger", type=ledger, metavar="PLACE", help="where the call is kept (runs/inspect/ledger.sqlite)"
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of the call (0)")
    parser.add_argument("--timeout", type=seconds, default=60.0, metavar="SECONDS", help="for each attempt (60)")
    parser.add_argument("--max-calls", type=count, metavar="N", help="budget of all plans in this ledger")
    parser.add_argument("--max-tokens", type=count, metavar="N", help="budget of all plans in this ledger")
    parser.add_argument("--max-dollars", type=amount, metavar="X", help="budget of all plans in this ledger")
    add_price(parser)


def run(args: argparse.Namespace, out: Output) -> int:
    from pipeline.config import PipelineError
    from pipeline.inspect.contents import Contents
    from pipeline.terminal import Terminal

    if args.trace is None and (args.render or args.plan):
        raise PipelineError("--render and --plan are of one trace: accepted with --trace ID")
    if args.plan is None and (args.price or args.endpoint):
        raise PipelineError("--price and --endpoint belong to --plan MODEL: accepted are both")
    dataset, report = read_traces(args)
    terminal = Terminal.of_output(args.json)
    data = [Contents(row, args.trace_tokens) for row in dataset]
    if args.trace is None:
        _show_data(data, report, terminal, out)
    else:
        _show_trace(_find(data, args.trace), args, terminal, out)
    return 0


def _show_data(data: list[Contents], report: ReadReport, terminal: Terminal, out: Output) -> None:
    from pipeline.inspect.checks import check
    from pipeline.inspect.statistics import statistics
    from pipeline.inspect.text import statistics_text, warnings_text
    from pipeline.terminal import printable

    numbers, warned = statistics(data), check(data)
    parts = [statistics_text(numbers, data[0].limit, terminal), warnings_text(warned, terminal)]
    if report.counts:
        parts.append("\n".join(["in reading:", *(f"  {printable(line)}" for line in report.lines())]))
    document = {**numbers, "limit": data[0].limit, "warnings": [one.to_json() for one in warned]}
    out.result("\n\n".join(parts), {**document, "read": report.to_json()}, painted=True)


def _find(data: list[Contents], name: str) -> Contents:
    """Raises: PipelineError, if no trace has the id, or several begin with it. TraceError, if several may have it."""
    from labeled_traces.names import did_you_mean
    from labeled_traces.readers.labels.joining import KnownIds
    from pipeline.config import PipelineError

    by_id = {one.row.trace_id: one for one in data}
    known = KnownIds(by_id).find(name)
    found = [known] if known is not None else [trace_id for trace_id in by_id if trace_id.startswith(name)]
    if len(found) == 1:
        return by_id[found[0]]
    several = ", ".join((found or list(by_id))[:5])
    said = f"{len(found)} traces begin with {name!r}" if found else f"no trace is {name!r}{did_you_mean(name, by_id)}"
    raise PipelineError(f"{said}: accepted is one of {several}{' ...' if len(found or data) > 5 else ''}")


def _show_trace(one: Contents, args: argparse.Namespace, terminal: Terminal, out: Output) -> None:
    from pipeline.inspect.tree import head_text, tree_json, tree_text
    from pipeline.terminal import printable

    parts = [head_text(one, terminal)]
    if not args.render:
        parts.append(tree_text(one, terminal))
    document: dict[str, Any] = {"trace_id": one.row.trace_id, "goal": one.goal, "answer": one.answer}
    document |= {"tokens": one.whole.tokens, "limit": one.limit, "spans": tree_json(one)}
    if args.render:
        cut = one.fitted.cut
        spans = len(one.whole.span_ids) - len(one.fitted.span_ids)
        said = (
            f"{cut:,} characters and {spans:,} spans are left out, as the text says" if cut or spans else "nothing cut"
        )
        parts.append(f"as judges read it ({one.fitted.tokens:,} tokens; {said}):\n\n{printable(one.fitted.text)}")
        document["rendered"] = {"text": one.fitted.text, "cut": cut, "spans_left_out": spans}
    text, document["plan"] = _plan(one, args, out)
    parts.append(printable(text))
    out.result("\n\n".join(parts), document, painted=True)


def _plan(one: Contents, args: argparse.Namespace, out: Output) -> tuple[str, dict[str, Any]]:
    from judges.ledger.budget import Budget, Price
    from pipeline.inspect.passages import passages
    from pipeline.inspect.plan import PlanCall, extract_plan

    if args.plan is None:
        found = passages(one.trace)
        head = "passages that call themselves a plan or a to-do list, found without a model (--plan MODEL extracts):"
        texts = [f"in span {span_id}:\n{_indented(text)}" for span_id, text in found] or ["  none"]
        plans = [{"span_id": span_id, "text": text} for span_id, text in found]
        return "\n".join([head, *texts]), {"model": None, "plans": plans}
    call = PlanCall(
        model=args.plan,
        endpoint=args.endpoint or "",
        trace_tokens=args.trace_tokens,
        seed=args.seed,
        timeout=args.timeout,
        budget=Budget(calls=args.max_calls, tokens=args.max_tokens, dollars=args.max_dollars),
        price=Price(*args.price) if args.price else None,
        ledger=args.ledger or Path("runs/inspect/ledger.sqlite"),
    )
    plan = extract_plan(one.trace, call, out.say)
    if plan is None:
        return f"plan: the reply of {args.plan} cannot be used", {"model": args.plan, "source": None, "plans": []}
    document = {"model": args.plan, "source": plan.source}
    document["plans"] = [{"span_id": span_id, "text": text} for span_id, text in plan.plans]
    return f"plan, as {args.plan} finds it ({plan.source}):\n{plan.text or '  none'}", document


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))
