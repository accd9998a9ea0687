"""Four ways to ask the same judge calls. Each runs in a process of its own, one of them at a time."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from judges.judge import judge_request
from judges.lm import LMRequest
from judges.mlflow_layout import instructions, judge_inputs, results
from judges.program import MLFLOW, JudgeSuite, Knobs, seed_suite
from judges.render import render
from labeled_traces.dataset import LabeledTrace
from labeled_traces.simulated.agent import simulate

MODEL = "judge"


@dataclass(frozen=True)
class Job:
    """`traces` simulated traces are read once by each of the seven judges. `layout` is the prompts' layout."""

    endpoint: str
    in_flight: int
    traces: int
    layout: str = MLFLOW

    @property
    def suite(self) -> JudgeSuite:
        return seed_suite(Knobs(model=f"openai/{MODEL}", endpoint=self.endpoint, layout=self.layout))

    @property
    def rows(self) -> list[LabeledTrace]:
        return simulate(self.traces, seed=0)

    def requests(self) -> list[LMRequest]:
        suite, limit = self.suite, Knobs().trace_tokens
        renderings = [render(row.trace, limit) for row in self.rows]
        return [
            judge_request(program, rendering, None, 0, 0)
            for rendering in renderings
            for program in suite.programs.values()
        ]


@dataclass(frozen=True)
class Ran:
    """One run of one arm: judge calls, seconds on the wall, and CPU seconds of the arm's own process."""

    calls: int
    wall: float
    cpu: float


def bare(job: Job) -> Ran:
    """The client of `openai` and a semaphore: no ledger, no reading of replies. The requests are made beforehand."""
    from openai import AsyncOpenAI

    bodies: list[dict[str, Any]] = [
        {
            "model": MODEL,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "temperature": request.temperature,
            "max_tokens": request.max_tokens,
            "response_format": _response_format(request),
        }
        for request in job.requests()
    ]

    async def ask() -> None:
        gate = asyncio.Semaphore(job.in_flight)

        async def one(body: dict[str, Any]) -> None:
            async with gate:
                reply = await client.chat.completions.create(**body)
                assert reply.choices[0].message.content

        async with AsyncOpenAI(base_url=job.endpoint, api_key="none", max_retries=0) as client:
            await asyncio.gather(*map(one, bodies))

    return _timed(len(bodies), lambda: asyncio.run(ask()))


def ours(job: Job) -> Ran:
    """`evaluate` through `open_lm`: rendering, prompts, ledger on disk, transport, strict reading of the replies."""
    from judges.models.connect import open_lm
    from pipeline.evaluate import EvaluateSettings, evaluate

    suite, rows = job.suite, job.rows
    with tempfile.TemporaryDirectory() as folder, open_lm(Path(folder, "ledger.sqlite"), "run") as lm:
        judged: list[Any] = []
        settings = EvaluateSettings(concurrency=job.in_flight)
        ran = _timed(len(rows) * 7, lambda: judged.extend(evaluate(suite, rows, lm, settings)))
    assert all(judgment.score == 2 and not judgment.detail for judgment in judged), judged[0]
    return ran


def mlflow(job: Job) -> Ran:
    """`mlflow.genai.evaluate` with the seven judges made by `make_judge`, over traces that are there already.

    No rate limit, as many workers as calls in flight, SQLite with a pool that does not starve them.
    """
    os.environ |= {
        "OPENAI_API_BASE": job.endpoint,
        "OPENAI_API_KEY": "none",
        "MLFLOW_GENAI_EVAL_MAX_WORKERS": str(-(-job.in_flight // 7)),
        "MLFLOW_GENAI_EVAL_MAX_SCORER_WORKERS": "7",
        "MLFLOW_GENAI_EVAL_SCORER_RATE_LIMIT": "0",
        "MLFLOW_GENAI_EVAL_PREDICT_RATE_LIMIT": "0",
        "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": "64",
        "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW": "64",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "TQDM_DISABLE": "1",
    }
    import mlflow
    from mlflow.genai.judges import make_judge

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.ERROR)
    mlflow.set_tracking_uri(f"sqlite:///{_folder().name}/mlflow.db")
    mlflow.set_experiment("calls")
    judges = [
        make_judge(
            name=name,
            instructions=instructions(program),
            model=f"openai:/{MODEL}",
            feedback_value_type=Literal[results(name)],
            generate_rationale_first=True,
            inference_params={"temperature": program.knobs.temperature, "max_tokens": program.knobs.max_tokens},
        )
        for name, program in job.suite.programs.items()
    ]
    rows = job.rows
    spans = [mlflow.start_span_no_context("agent") for _ in rows]
    for span in spans:
        span.end()
    mlflow.flush_trace_async_logging()
    data = [
        {"inputs": judge_inputs(render(row.trace, Knobs().trace_tokens)), "trace": mlflow.get_trace(span.trace_id)}
        for row, span in zip(rows, spans, strict=True)
    ]
    with redirect_stdout(io.StringIO()):
        return _timed(len(data) * 7, lambda: mlflow.genai.evaluate(data=data, scorers=judges))


def dspy(job: Job) -> Ran:
    """`dspy.Evaluate` with as many threads as calls in flight. The cache is off: no call is asked twice.

    The program hands our messages to `dspy.LM` as they are: an adapter of DSPy would write another prompt, and be
    slower. The reply is read with `json.loads`.
    """
    import dspy

    class Judge(dspy.Module):  # type: ignore[misc]
        def forward(self, request: LMRequest) -> Any:
            messages = [{"role": message.role, "content": message.content} for message in request.messages]
            (text,) = lm(messages=messages, response_format=_response_format(request))
            return dspy.Prediction(**json.loads(text))

    logging.getLogger("dspy").setLevel(logging.ERROR)
    knobs = Knobs()
    lm = dspy.LM(
        f"openai/{MODEL}",
        api_base=job.endpoint,
        api_key="none",
        cache=False,
        num_retries=0,
        temperature=knobs.temperature,
        max_tokens=knobs.max_tokens,
    )
    examples = [dspy.Example(request=request).with_inputs("request") for request in job.requests()]
    run = dspy.Evaluate(
        devset=examples,
        metric=lambda _, found: float(found.rationale != ""),
        num_threads=job.in_flight,
        display_progress=False,
        provide_traceback=True,
    )
    return _timed(len(examples), lambda: run(Judge()))


ARMS: dict[str, Callable[[Job], Ran]] = {"bare": bare, "ours": ours, "mlflow": mlflow, "dspy": dspy}


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Of this process, until it ends: to make MLflow's tables takes seconds."""
    return tempfile.TemporaryDirectory()


def _response_format(request: LMRequest) -> dict[str, Any]:
    schema = dict(request.schema or {})
    return {"type": "json_schema", "json_schema": {"name": schema.get("title", "reply"), "schema": schema}}


def _timed(calls: int, work: Callable[[], object]) -> Ran:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Ran(calls, time.perf_counter() - wall, time.process_time() - cpu)
