from __future__ import annotations

import json

import pytest

from experiments.arms import Job, Ran, bare, dspy, ours
from experiments.calls import Measured, table
from experiments.loopback import Count, Loopback


def test_the_arms_ask_the_same_prompts_and_each_judgment_is_one_call() -> None:
    with Loopback(latency=0.01) as server:
        job = Job(server.endpoint, in_flight=5, traces=2)
        runs = [(arm(job), server.count()) for arm in (bare, ours, dspy)]
    assert {ran.calls for ran, _ in runs} == {14}
    assert {count.requests for _, count in runs} == {14}
    assert {count.prompts for _, count in runs} == {runs[0][1].prompts}
    assert max(count.most_in_flight for _, count in runs) == 5
    assert min(ran.cpu for ran, _ in runs) > 0


@pytest.mark.parametrize(("other", "said"), [("a", "the same prompts"), ("b", "OTHER PROMPTS")])
def test_the_table_tells_medians_and_whether_prompts_were_equal(other: str, said: str) -> None:
    runs = tuple(Ran(100, wall, 0.2) for wall in (1.0, 0.5, 2.0))
    rows = [
        Measured(name, 32, 0.1, runs, (Count(100, 32, 1, prompts),))
        for name, prompts in (("bare", "a"), ("ours", other))
    ]
    text = table(rows)
    assert said in text
    assert [line.split()[:4] for line in text.splitlines() if line.startswith("ours")] == [
        ["ours", "100.0", "50.0-200.0", "31.2%"]
    ]
    assert json.dumps(rows[0].cpu) == "2.0"
