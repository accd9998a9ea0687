from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.commands.arguments import add_consent, add_json, add_price
from pipeline.commands.evaluation import add_evaluation, measurement, same_options
from pipeline.commands.output import Output
from pipeline.hints import command

if TYPE_CHECKING:
    from pipeline.batch.exchange import Exported, Imported
    from pipeline.batch.providers import Status
    from pipeline.batch.submissions import Batch

HELP = "Answer an evaluation's calls elsewhere: with a batch API at half the price, by a person or by another system."
EXAMPLES = """\
examples: the whole way (the options after DATA are those of `gpa-judges evaluate`, and the same in every step)
  gpa-judges batch export data.jsonl --model openai/gpt-5 --repeats 3 --out calls.jsonl
  gpa-judges batch submit calls.jsonl --model openai/gpt-5
  gpa-judges batch status calls.jsonl
  gpa-judges batch fetch calls.jsonl
  gpa-judges batch import data.jsonl --model openai/gpt-5 --repeats 3 --replies replies-*.jsonl errors-*.jsonl
  gpa-judges batch export data.jsonl --model openai/gpt-5 --repeats 3 --out calls.jsonl    (a second round: see below)
  gpa-judges evaluate data.jsonl --model openai/gpt-5 --repeats 3                         (ends without a call)

A person or another system can answer calls.jsonl instead of submit, status and fetch: a line of {"custom_id", "text"}
for each. Some calls follow from replies: judges of plans are shown the plan that another call extracts, and a reply
that was cut is asked for again with a larger limit. Export again until nothing is missing, or let `evaluate` make the
calls that are left. `gpa-judges batch STEP --help` explains each step; simulated/default is a model to try it out.
"""
CALLS = "calls.jsonl"
_EXPORT = """\
example:
  gpa-judges batch export data.jsonl --model openai/gpt-5 --repeats 3 --out calls.jsonl

Writes the calls that the evaluation still has to make, as OpenAI's batch API takes them: one JSON object a line, with
"custom_id" and "body". Nothing is sent or charged. A cap (--max-dollars) leaves out calls that could pass it, at the
most that each can cost. Calls of several models, or more than a provider takes at once, become calls-1.jsonl,
calls-2.jsonl ... What an earlier export wrote under these names is replaced.
"""
_IMPORT = """\
example:
  gpa-judges batch import data.jsonl --model openai/gpt-5 --repeats 3 --replies replies-*.jsonl errors-*.jsonl

Reads replies into the evaluation's ledger, in any order, complete or not, as often as you like. A pattern that no file
is like is left out: a batch without errors leaves no file of them. Lines may be
  {"custom_id": ..., "response": {"status_code": 200, "body": {...}}, "error": null}     OpenAI, and its error files
  {"custom_id": ..., "result": {"type": "succeeded", "message": {...}}}                  Anthropic
  {"custom_id": ..., "text": "the reply"}                                                a person or another system
The last may tell "usage": {"prompt_tokens", "completion_tokens"} and "cost" in dollars: what is not told counts as the
most that the call could have cost. Calls that failed or expired stay open. A reply to another evaluation is refused.
The first reply to a call stays; --replace puts one that differs in its place, to correct an answer. What the first has
cost stays on the account; what the new line tells as its cost or usage comes on top, and nothing if it tells none.
"""
_SUBMIT = """\
example:
  gpa-judges batch submit calls*.jsonl --model openai/gpt-5

Uploads each file and starts its batch, with OpenAI or Anthropic (or simulated/..., to try it). The key comes from the
environment (OPENAI_API_KEY, ANTHROPIC_API_KEY). What was submitted stands in calls.batches.json beside calls.jsonl, so
the same calls again start no second batch, also after a kill at any moment or under another name in the same folder.
The expected cost of all files is said first, and asked about above --ask-above; without a terminal that needs --yes.
"""
_FETCH = """\
example:
  gpa-judges batch fetch calls*.jsonl

Saves what a batch that has ended gave, also one that expired or was cancelled, as replies-<batch>.jsonl and
errors-<batch>.jsonl beside the calls. Then `gpa-judges batch import`.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    one = _step(steps, "export", "write the calls that an evaluation still has to make", _EXPORT)
    add_evaluation(one, results=("--results",), sent=False)
    calls = Path(CALLS)
    one.add_argument("--out", type=Path, default=calls, metavar="FILE", help=f"the file of calls to write ({calls})")
    one = _step(steps, "import", "read replies into the evaluation's ledger", _IMPORT)
    add_evaluation(one, sent=False)
    one.add_argument("--replies", type=Path, nargs="+", required=True, metavar="FILE", help="replies and errors")
    one.add_argument(
        "--replace", action="store_true", help="replies that differ from those that are there take their place"
    )
    one = _step(steps, "submit", "send calls to a batch API", _SUBMIT)
    one.add_argument("calls", type=Path, nargs="+", metavar="CALLS", help="files that `batch export` wrote")
    one.add_argument("--model", required=True, metavar="NAME", help="the model that export was given")
    one.add_argument("--endpoint", default="", metavar="URL", help="base URL of a server with OpenAI's batch API")
    add_price(one)
    add_consent(one, "10, for all files together", capped=False)
    for name, what, epilog in (("status", "how batches stand", ""), ("fetch", "save what batches gave", _FETCH)):
        one = _step(steps, name, what, epilog)
        one.add_argument("calls", type=Path, nargs="+", metavar="CALLS", help="files that were submitted")


def _step(steps: Any, name: str, help_text: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = steps.add_parser(
        name, help=help_text, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_json(parser, argparse.SUPPRESS)
    return parser


def run(args: argparse.Namespace, out: Output) -> int:
    _STEPS[args.step](args, out)
    return 0


def _export(args: argparse.Namespace, out: Output) -> None:
    from pipeline.batch.exchange import export_calls

    done = export_calls(measurement(args, "batch export"), args.out, out.say)
    text = "\n".join([*_exported(done), "", "Next:", *_after_export(args, done)])
    out.result(text, done.to_json())


def _exported(done: Exported) -> list[str]:
    from pipeline.report.table import money

    lines = []
    if done.calls:
        prompts, replies = f"{done.prompt_tokens:,} tokens of prompts", f"{done.completion_tokens:,} of replies"
        lines.append(f"{done.calls:,} calls, {done.bytes / 1e6:.1f} MB: {', '.join(map(str, done.files))}")
        cost = money(done.most_dollars, done.simulated)
        if done.most_dollars is not None and not done.simulated:
            cost = f"in a batch at most {cost}"
        lines.append(f"They take about {prompts} and at most {replies}; {cost}")
    if done.over_budget:
        lines.append(f"{done.over_budget:,} calls are left out: with them the budget could be passed")
    if done.waiting:
        lines.append(f"{done.waiting:,} judgments wait for plan extractions: import their replies, then export again")
    return lines or ["No call is missing"]


def _after_export(args: argparse.Namespace, done: Exported) -> list[str]:
    if not done.calls:
        return [f"  {command('evaluate', *same_options(args))}    (ends without a call)"]
    from pipeline.batch.calls import provider_of
    from pipeline.batch.connect import PROVIDERS

    lines = []
    for model, endpoint in dict.fromkeys(done.targets):
        files = [file for file, target in zip(done.files, done.targets, strict=True) if target == (model, endpoint)]
        words = ["batch", "submit", *files, "--model", model]
        words += ["--endpoint", endpoint] if endpoint else []
        words += ["--price", *args.price] if args.price else []
        if (provider := provider_of(model, endpoint)[0]) in PROVIDERS:
            lines.append(f"  {command(*words)}    (or have the calls answered elsewhere)")
        else:
            lines.append(f"  have {shlex.join(map(str, files))} answered: batches of {provider} are not sent from here")
    return [*lines, f"  {command('batch', 'import', *same_options(args), '--replies')} FILE..."]


def _import(args: argparse.Namespace, out: Output) -> None:
    from pipeline.batch.exchange import import_replies

    done = import_replies(measurement(args, "batch import"), args.replies, out.say, replace=args.replace)
    text = "\n".join([*_imported(done), "", "Next:", *_after_import(args, done)])
    out.result(text, done.to_json())


def _imported(done: Imported) -> list[str]:
    from pipeline.batch.exchange import listed
    from pipeline.report.table import money

    lines = [f"{done.filed:,} replies filed, {done.known:,} were there before"]
    if done.differing:
        where, count = listed(done.differing), len(done.differing)
        said = "of these were replaced" if done.replaced else "differ from what is there: --replace files these instead"
        lines.append(f"{count:,} {said} ({where})")
    if done.unreadable:
        first, count = done.unreadable[0], len(done.unreadable)
        lines.append(f"WARNING, replies that cannot be read, so they give no score: {count:,}; the first: {first}")
    if done.repeated:
        lines.append(f"{done.repeated:,} repeated: the first reply to a call counts")
    if done.errors:
        lines.append(f"No reply but an error: {', '.join(f'{count:,} {kind}' for kind, count in done.errors.items())}")
    cost = money(done.cost, done.simulated)
    lines.append(f"Cost of this evaluation so far: {done.calls:,} calls, {done.tokens:,} tokens, {cost}")
    if done.passed:
        lines.append(f"WARNING, these replies have passed the budget: {done.passed}")
    waits = f"; {done.waiting:,} judgments wait for plan extractions" if done.waiting else ""
    return [*lines, f"{done.missing:,} calls are missing{waits}"]


def _after_import(args: argparse.Namespace, done: Imported) -> list[str]:
    again = f"  {command('batch', 'export', *same_options(args), '--out', done.exported or CALLS)}    (what is missing)"
    ends = "makes the missing calls" if done.missing else "ends without a call"
    return [*([again] if done.missing else []), f"  {command('evaluate', *same_options(args))}    ({ends})"]


def _submit(args: argparse.Namespace, out: Output) -> None:
    from judges.ledger.budget import Price
    from pipeline.batch.jobs import Terms, submit
    from pipeline.consent import Consent

    consent = Consent(Consent.above if args.ask_above is None else args.ask_above, args.yes, capped=False)
    prices = {args.model: Price(*args.price)} if args.price else {}
    terms = Terms(args.model, args.endpoint, prices, consent)
    batches = submit(args.calls, terms, out.say)
    lines = [f"{path}: {batch.calls:,} calls, batch {batch.batch_id}" for path, batch in batches.items()]
    following = [f"  {command('batch', step, *args.calls)}" for step in ("status", "fetch")]
    out.result("\n".join([*lines, "", "Next:", *following]), [_row(path, batch) for path, batch in batches.items()])


def _status(args: argparse.Namespace, out: Output) -> None:
    from pipeline.batch.fetching import look

    found = [(path, *one) for path in args.calls for one in look(path)]
    out.result("\n".join(_standing(*one) for one in found), [_row(*one) for one in found])


def _fetch(args: argparse.Namespace, out: Output) -> None:
    from pipeline.batch.fetching import fetch

    found = [(path, *one) for path in args.calls for one in fetch(path, out.say)]
    lines = [_standing(*one) for one in found]
    named = [path.with_name(name) for path, batch, _ in found for name in batch.files]
    files = [path for path in named if path.exists()]
    if files:
        said = shlex.join(map(str, files))
        lines += [
            "",
            "Next, with the options of `batch export`:",
            f"  gpa-judges batch import DATA ... --replies {said}",
        ]
    out.result("\n".join(lines), [_row(*one) for one in found])


def _standing(path: Path, batch: Batch, status: Status) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in status.counts.items())
    name = batch.batch_id and f"batch {batch.batch_id}"
    return "; ".join(filter(None, [f"{path}: {status.status}", name, counts, status.detail]))


def _row(path: Path, batch: Batch, status: Status | None = None) -> dict[str, Any]:
    found = {"calls_file": str(path), **asdict(batch)}
    return found if status is None else {**found, "counts": dict(status.counts), "detail": status.detail}


_STEPS: dict[str, Callable[[argparse.Namespace, Output], None]] = {
    "export": _export,
    "import": _import,
    "submit": _submit,
    "status": _status,
    "fetch": _fetch,
}
