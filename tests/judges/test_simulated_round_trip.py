"""The deterministic checks find exactly the planted labels in the text that a judge reads, too."""

from __future__ import annotations

from collections import Counter

import pytest

from judges.render import render
from judges.rendered import parse_rendered
from labeled_traces.simulated import FaultRates, find_problems, simulate


@pytest.mark.parametrize(("seed", "factor"), [(0, 1), (1, 2), (2, 2), (3, 4)])
def test_exactly_the_planted_labels_are_found_in_the_rendered_text(seed: int, factor: float) -> None:
    for row in simulate(250, seed, FaultRates().scaled(factor), world_seed=seed):
        rendering = render(row.trace, 100_000)
        problems = find_problems(parse_rendered(rendering.text))
        assert rendering.cut == 0
        assert set(rendering.span_ids) == set(row.trace.by_id)
        assert Counter((p.kind, p.dimensions, p.span_id, p.impact) for p in problems) == Counter(
            (e.category, e.dimensions, e.span_id, e.impact) for e in row.errors
        )


@pytest.mark.parametrize("token_limit", [300, 600, 900, 1200])
def test_a_cut_hides_problems_but_invents_none(token_limit: int) -> None:
    for row in simulate(100, 9, FaultRates().scaled(3)):
        seen = find_problems(parse_rendered(render(row.trace, token_limit).text))
        whole = Counter((p.kind, p.span_id) for p in find_problems(row.trace))
        assert Counter((p.kind, p.span_id) for p in seen) <= whole
