"""Judge calls per second and CPU per call: bare client, `evaluate`, `mlflow.genai.evaluate`, `dspy.Evaluate`.

All ask the same prompts of one server on loopback that answers after a fixed latency. The arms take turns, each in a
process of its own that has made a few calls before its clock starts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context

from experiments.arms import ARMS, Job, Ran
from experiments.loopback import Count, Loopback
from judges.program import LAYOUTS, MLFLOW

SETTINGS = ((32, 0.1), (128, 0.1), (32, 1.0))
"""In flight, and latency in seconds."""


@dataclass(frozen=True)
class Measured:
    """All runs of one arm in one setting."""

    arm: str
    in_flight: int
    latency: float
    runs: tuple[Ran, ...]
    counts: tuple[Count, ...]

    @property
    def rates(self) -> list[float]:
        """Judge calls per second."""
        return [run.calls / run.wall for run in self.runs]

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)

    @property
    def cpu(self) -> float:
        """CPU ms per call."""
        return statistics.median(run.cpu / run.calls * 1000 for run in self.runs)


def main() -> None:
    args = _arguments()
    found: list[Measured] = []
    # Here, since every process of an arm inherits it.
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONWARNINGS": "ignore"}
    workers = {arm: ProcessPoolExecutor(1, mp_context=get_context("spawn")) for arm in args.arms}
    for in_flight, latency in [(n, s) for n in args.in_flight for s in args.latency] or SETTINGS:
        traces = -(-(args.calls or _calls(in_flight)) // 7)
        with Loopback(latency) as server:
            found += _setting(workers, server, Job(server.endpoint, in_flight, traces, args.layout), latency, args)
    for worker in workers.values():
        worker.shutdown()
    if args.json:
        print(json.dumps([{**asdict(row), "rate": row.rate, "cpu_ms": row.cpu} for row in found], indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments.calls", description=__doc__)
    parser.add_argument("--calls", type=int, help="judge calls of each run (28 times what is in flight)")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[], help="with --latency, instead of 32 and 128")
    parser.add_argument("--latency", type=float, nargs="+", default=[0.1], help="seconds, with --in-flight (0.1)")
    parser.add_argument("--arms", nargs="+", choices=tuple(ARMS), default=tuple(ARMS))
    parser.add_argument("--repeats", type=int, default=3, help="runs of each arm, which take turns (3)")
    parser.add_argument("--layout", choices=LAYOUTS, default=MLFLOW, help="of the prompts; the arm mlflow has but one")
    parser.add_argument("--json", action="store_true", help="print one document; the table goes to stderr")
    args = parser.parse_args()
    if args.layout != MLFLOW and "mlflow" in args.arms:
        parser.error(f"the arm mlflow asks in the layout {MLFLOW} alone: name the others with --arms")
    return args


def _calls(in_flight: int) -> int:
    """So many that the start and the end weigh little: about 28 times what is in flight, of whole traces and rounds."""
    whole = math.lcm(7, in_flight)
    return whole * max(1, round(28 * in_flight / whole))


def _setting(
    workers: dict[str, ProcessPoolExecutor], server: Loopback, job: Job, latency: float, args: argparse.Namespace
) -> list[Measured]:
    runs: dict[str, list[tuple[Ran, Count]]] = {arm: [] for arm in workers}
    for arm, worker in workers.items():
        worker.submit(ARMS[arm], Job(job.endpoint, job.in_flight, 2, job.layout)).result()
    server.count()
    for _ in range(args.repeats):
        for arm, worker in workers.items():
            runs[arm].append((worker.submit(ARMS[arm], job).result(), server.count()))
    rows = []
    for arm, both in runs.items():
        ran, counts = zip(*both, strict=True)
        rows.append(Measured(arm, job.in_flight, latency, ran, counts))
    print(table(rows), file=sys.stderr if args.json else sys.stdout, flush=True)
    return rows


def table(rows: Sequence[Measured]) -> str:
    first = rows[0]
    bound = first.in_flight / first.latency
    bare = next((row.rate for row in rows if row.arm == "bare"), None)
    prompts = {count.prompts for row in rows for count in row.counts}
    lines = [
        f"{first.in_flight} in flight, {first.latency * 1000:g} ms latency: at most {bound:,.0f} calls/s; "
        f"{first.runs[0].calls:,} calls a run, {len(first.runs)} runs; "
        + ("the same prompts" if len(prompts) == 1 else "OTHER PROMPTS"),
        f"{'arm':8}{'calls/s':>9}{'range':>16}{'of bound':>10}{'of bare':>9}{'CPU ms/call':>13}{'in flight':>11}"
        f"{'requests':>10}",
    ]
    for row in rows:
        low, high = min(row.rates), max(row.rates)
        lines.append(
            f"{row.arm:8}{row.rate:9,.1f}{f'{low:,.1f}-{high:,.1f}':>16}{row.rate / bound:10.1%}"
            f"{'' if bare is None else f'{row.rate / bare:.1%}':>9}{row.cpu:13.2f}"
            f"{max(count.most_in_flight for count in row.counts):11}{row.counts[0].requests:10,}"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
