"""Input tokens that no prefix cache serves: seven judges with repeats on real traces, trace first against rubric first.

Counted with a real tokenizer over the prompts as they are sent, in the order in which `evaluate` starts them.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from judges.judge import judge_request
from judges.program import Knobs, seed_suite
from judges.render import render
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.readers import read
from pipeline.call_order import CallOrder, Place

Tokens: TypeAlias = tuple[int, ...]
BLOCK = 128
"""Tokens: what hosted services serve of a cached prompt is a multiple of it."""


@dataclass(frozen=True)
class Prompt:
    """The texts of one call. `schema` is the reply's, which some providers put before the prompt."""

    schema: Tokens
    system: Tokens
    trace: Tokens
    rubric: Tokens

    @property
    def trace_first(self) -> Tokens:
        return self.system + self.trace + self.rubric

    @property
    def rubric_first(self) -> Tokens:
        return self.system + self.rubric + self.trace


class Order(Protocol):
    def take(self) -> Place | None: ...

    def ended(self, place: Place) -> int: ...


class AllAtOnce:
    """An order that waits for nothing: trace by trace, repeat by repeat, judge by judge."""

    def __init__(self, traces: int, judges: int, repeats: int) -> None:
        numbers = [judge * repeats + repeat for repeat in range(repeats) for judge in range(judges)]
        self._left = deque((trace, number) for trace in range(traces) for number in numbers)

    def take(self) -> Place | None:
        return self._left.popleft() if self._left else None

    def ended(self, _: Place) -> int:
        return 0


def played(order: Order, slots: int) -> Iterator[tuple[Place, bool]]:
    """Starts (True) and ends (False), if all calls take the same time and as many as possible are in flight."""
    flying: list[tuple[int, int, Place]] = []
    now = number = 0
    while True:
        while len(flying) < slots and (place := order.take()) is not None:
            heapq.heappush(flying, (now + 1, number := number + 1, place))
            yield place, True
        if not flying:
            return
        now, _, place = heapq.heappop(flying)
        order.ended(place)
        yield place, False


class LastPrompt:
    """A server with one slot that remembers the prompt before: llama.cpp."""

    def __init__(self) -> None:
        self._last: Tokens = ()

    def cached(self, tokens: Tokens) -> int:
        pairs = enumerate(zip(self._last, tokens, strict=False))
        return next((place for place, (old, new) in pairs if old != new), min(len(self._last), len(tokens)))

    def keep(self, tokens: Tokens) -> None:
        self._last = tokens


class AllPrompts:
    """A service that finds the beginning of any prompt that was answered, in whole blocks: OpenAI, vLLM."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def cached(self, tokens: Tokens) -> int:
        found = 0
        for number, block in enumerate(_blocks(tokens), 1):
            if block not in self._known:
                break
            found = number * BLOCK
        return found

    def keep(self, tokens: Tokens) -> None:
        self._known.update(_blocks(tokens))


def _blocks(tokens: Tokens) -> Iterator[int]:
    """One number a block, which stands for all before it as well."""
    before = 0
    for start in range(0, len(tokens) - BLOCK + 1, BLOCK):
        before = hash((before, tokens[start : start + BLOCK]))
        yield before


def uncached(
    prompts: Sequence[Sequence[Prompt]],
    tokens_of: Callable[[Prompt], Tokens],
    cache: LastPrompt | AllPrompts,
    order: Order,
    slots: int,
) -> int:
    """Tokens that are evaluated, of all prompts."""
    total = 0
    for (trace, number), starts in played(order, slots):
        tokens = tokens_of(prompts[trace][number])
        if starts:
            total += len(tokens) - cache.cached(tokens)
        else:
            cache.keep(tokens)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.prefix", description=__doc__)
    parser.add_argument(
        "data",
        type=Path,
        nargs="?",
        help="what `gpa-judges import` wrote; default: the AgentRx runs in the folder that GPA_SHARED_DATA names",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--json", action="store_true", help="print one document")
    args = parser.parse_args()
    rows = _rows(args.data)
    found = count(rows, args.repeats, args.in_flight)
    if args.json:
        print(json.dumps(found, indent=2))
        return
    calls, sent = len(rows) * 7 * args.repeats, found["sent"]["prompts"]
    print(f"{len(rows)} traces x 7 judges x {args.repeats} repeats: {calls:,} calls, {sent:,} tokens\n")
    print(
        f"{'uncached tokens, by kind of cache':50}{'rubric first':>14}{'same order':>14}{'trace first':>14}{'fewer':>8}"
    )
    for name, row in found.items():
        if name != "sent":
            before, same, now = row["rubric first"], row["rubric first, our order"], row["trace first"]
            print(f"{name:50}{before:14,}{same:14,}{now:14,}{before / now:7.1f}x")


def count(rows: Sequence[LabeledTrace], repeats: int, in_flight: int) -> dict[str, dict[str, int]]:
    """By kind of cache: what is evaluated in each order of texts."""
    suite = seed_suite(Knobs(plan_extraction=False))
    readings = [(program, repeat) for program in suite.programs.values() for repeat in range(repeats)]
    prompts = [_prompts(row, repeats) for row in rows]

    def ours(slots: int) -> Order:
        return CallOrder(len(rows), readings, slots)

    def others() -> Order:
        return AllAtOnce(len(rows), len(suite.programs), repeats)

    def compared(cache: type[LastPrompt | AllPrompts], slots: int, schema: bool = False) -> dict[str, int]:
        def rubric(prompt: Prompt) -> Tokens:
            return (prompt.schema if schema else ()) + prompt.rubric_first

        def trace(prompt: Prompt) -> Tokens:
            return (prompt.schema if schema else ()) + prompt.trace_first

        return {
            "rubric first": uncached(prompts, rubric, cache(), others(), slots),
            "rubric first, our order": uncached(prompts, rubric, cache(), ours(slots), slots),
            "trace first": uncached(prompts, trace, cache(), ours(slots), slots),
        }

    every = [prompt for row in prompts for prompt in row]
    sent = sum(len(prompt.trace_first) for prompt in every)
    # What ends with the mark is evaluated once, the rest in each call.
    rubrics = {prompt.rubric: len(prompt.system + prompt.rubric) for prompt in every}
    rubric_marked = sum(rubrics.values()) + sum(len(prompt.trace) for prompt in every)
    trace_marked = sum(len(row[0].system + row[0].trace) for row in prompts) + sum(len(call.rubric) for call in every)
    return {
        "sent": {"prompts": sent},
        "the last prompt, one in flight (llama.cpp)": compared(LastPrompt, 1),
        f"every answered prompt, {in_flight} in flight (vLLM)": compared(AllPrompts, in_flight),
        "the same, the reply's schema first (OpenAI)": compared(AllPrompts, in_flight, schema=True),
        "what is marked (Anthropic)": {
            "rubric first": sent,
            "rubric first, our order": rubric_marked,
            "trace first": trace_marked,
        },
    }


def _prompts(row: LabeledTrace, repeats: int) -> list[Prompt]:
    """One for each reading, judge by judge."""
    rendering = render(row.trace, Knobs().trace_tokens)
    found = []
    for program in seed_suite(Knobs(plan_extraction=False)).programs.values():
        request = judge_request(program, rendering, None, 0, 0)
        system, user = request.messages
        texts = system.content, user.content[: user.shared], user.content[user.shared :]
        prompt = Prompt(_tokens(json.dumps(request.schema)), *map(_tokens, texts))
        found += [prompt] * repeats
    return found


def _tokens(text: str) -> Tokens:
    """By cl100k_base, which LiteLLM brings along."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    from litellm.utils import encoding

    return tuple(encoding.encode(text, disallowed_special=()))


def _rows(data: Path | None) -> list[LabeledTrace]:
    if data is not None:
        return list(Dataset.load(data))
    folder = Path(os.environ.get("GPA_SHARED_DATA", "."), "agentrx_tau")
    if not folder.is_dir():
        raise SystemExit("no traces: name a file that `gpa-judges import` wrote, or set GPA_SHARED_DATA")
    rows, _ = read([folder])
    return list(rows)


if __name__ == "__main__":
    main()
