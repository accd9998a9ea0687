"""Wall time and evaluated tokens of seven judges on one trace at a real small model: trace first, and rubric first."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from experiments.small_model import SmallModel, SmallModelMissing
from judges.judge import judge_request
from judges.lm import LMRequest, Message
from judges.models.connect import open_lm
from judges.program import Knobs, seed_suite
from judges.render import render
from labeled_traces.simulated import simulate
from pipeline.commands.arguments import whole
from pipeline.progress import Progress


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.local_model", description=__doc__)
    parser.add_argument("--trace-tokens", type=whole(256), default=2000, help="of the trace, about: from 256 (2000)")
    parser.add_argument(
        "--reply-tokens", type=whole(1), default=64, help="of each reply, which is then cut: from 1 (64)"
    )
    args = parser.parse_args()
    try:
        model = SmallModel()
    except SmallModelMissing as missing:
        raise SystemExit(str(missing)) from None
    with model:
        trace_first = _requests(model, args.trace_tokens, args.reply_tokens)
        print(f"{'order':14}{'wall s':>8}{'evaluated tokens':>18}{'sent tokens':>13}")
        for name, requests in (("trace first", trace_first), ("rubric first", [*map(_turned, trace_first)])):
            before, start = model.counted(), time.perf_counter()
            with Progress(name, len(requests), "calls") as progress:
                sent = asyncio.run(_asked(requests, progress))
            wall, evaluated = time.perf_counter() - start, model.counted()[0] - before[0]
            print(f"{name:14}{wall:8.1f}{evaluated:18,}{sent:13,}", flush=True)


def _requests(model: SmallModel, trace_tokens: int, reply_tokens: int) -> list[LMRequest]:
    knobs = Knobs(model=model.name, endpoint=model.endpoint, max_tokens=reply_tokens, plan_extraction=False)
    # The longest of them, cut to the limit.
    traces = [row.trace for row in simulate(20, 0)]
    rendering = max((render(trace, trace_tokens) for trace in traces), key=lambda found: found.tokens)
    return [judge_request(program, rendering, None, 0, 0) for program in seed_suite(knobs).programs.values()]


def _turned(request: LMRequest) -> LMRequest:
    """The judge's texts before the trace."""
    system, user = request.messages
    texts = user.content[user.shared :], user.content[: user.shared]
    return replace(request, messages=(system, Message("user", "\n\n".join(texts))))


async def _asked(requests: list[LMRequest], progress: Progress) -> int:
    """Asks one after the other; the tokens of their prompts."""
    sent = 0
    with tempfile.TemporaryDirectory() as folder, open_lm(Path(folder, "ledger.sqlite"), "run", timeout=600) as lm:
        for request in requests:
            sent += (await lm.complete(request)).prompt_tokens
            progress.update()
    return sent


if __name__ == "__main__":
    main()
