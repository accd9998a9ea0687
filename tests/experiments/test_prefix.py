from __future__ import annotations

import pytest

from experiments.prefix import AllAtOnce, AllPrompts, LastPrompt, count, played
from labeled_traces.simulated import simulate


def test_a_server_that_remembers_one_prompt() -> None:
    cache = LastPrompt()
    assert cache.cached((1, 2, 3)) == 0
    cache.keep((1, 2, 3))
    assert [cache.cached(tokens) for tokens in [(1, 2, 4), (2, 3), (1, 2, 3, 4)]] == [2, 0, 3]


def test_a_service_that_remembers_all_prompts_in_blocks() -> None:
    cache = AllPrompts()
    first, second = tuple(range(300)), (*range(200), *range(500, 600))
    cache.keep(first)
    assert [cache.cached(tokens) for tokens in [first, second, first[1:], first[:100]]] == [256, 128, 0, 0]


def test_calls_that_wait_for_nothing() -> None:
    events = list(played(AllAtOnce(2, judges=2, repeats=2), slots=3))
    assert [place for place, starts in events if starts] == [(t, n) for t in (0, 1) for n in (0, 2, 1, 3)]
    assert [starts for _, starts in events[:5]] == [True, True, True, False, True]


@pytest.mark.parametrize("in_flight", [1, 16])
def test_the_trace_first_saves_whatever_the_cache(in_flight: int) -> None:
    found = count(simulate(3, 0), repeats=2, in_flight=in_flight)
    sent = found.pop("sent")["prompts"]
    assert len(found) == 4
    for row in found.values():
        assert 0 < row["trace first"] < min(row["rubric first"], row["rubric first, our order"])
        assert max(row.values()) <= sent * 1.2  # the schema may stand before the prompt
