from __future__ import annotations

import pytest

from labeled_traces.dataset import Dataset
from labeled_traces.label import DIMENSIONS
from labeled_traces.simulated import rate, simulate
from labeled_traces.split import make_split
from labeled_traces.split_report import Part, needed, parts_of, reach, shortages


def test_parts_are_counted_as_they_are() -> None:
    data = Dataset(rate(simulate(80, 0), 0))
    manifest = make_split(data, 0)
    parts = parts_of(manifest, data)
    assert sum(part.traces for part in parts.values()) == 80
    assert sum(part.groups for part in parts.values()) == len({row.group for row in data})
    for name, part in parts.items():
        rows = data.subset(manifest.parts[name])
        assert (part.traces, part.clean) == (len(rows), sum(row.is_clean for row in rows))
        for dimension in DIMENSIONS:
            wanted = [error for row in rows for error in row.errors if dimension in error.dimensions]
            assert sum(part.labels[dimension].values()) == len(wanted)
            assert part.labels[dimension]["high"] == sum(str(error.impact) == "high" for error in wanted)
        assert part.errors + part.outside == sum(len(row.errors) for row in rows)


@pytest.mark.parametrize(("number", "half"), [(10, 0.263), (39, 0.150), (100, 0.096), (400, 0.049)])
def test_how_well_a_share_of_one_half_is_known(number: int, half: float) -> None:
    """Against Wilson's interval written out: (p + z2/2n -+ z * sqrt(p(1-p)/n + z2/4n2)) / (1 + z2/n)."""
    z2 = 1.959964**2
    written_out = (z2 * (0.25 / number + z2 / (4 * number**2))) ** 0.5 / (1 + z2 / number)
    assert reach(number) == pytest.approx(written_out)
    assert reach(number) == pytest.approx(half, abs=6e-4)


def test_the_number_needed_is_the_least() -> None:
    assert needed() == 39
    for half in (0.3, 0.15, 0.1, 0.05):
        assert reach(needed(half)) <= half < reach(needed(half) - 1)


def test_what_a_testset_cannot_say_is_told_with_the_number_needed() -> None:
    def part(labels: int, clean: int) -> Part:
        return Part(50, 40, clean, labels, {name: {"low": labels} for name in DIMENSIONS}, 0)

    parts = {"trainset": part(1, 1), "valset": part(1, 1), "testset": part(17, 39)}
    assert shortages(parts, ("tool_selection", "tool_calling")) == [
        "the coverage of a judge alone is known to within 0.15 from 39 labels on, in the testset are "
        "tool_selection 17 (within 0.21 at best, 22 more needed), tool_calling 17 (within 0.21 at best, 22 more needed)"
    ]
    assert shortages({**parts, "testset": part(39, 39)}) == []
    assert shortages({**parts, "testset": part(39, 0)}) == [
        "the share of false alarms is known to within 0.15 from 39 clean traces on, in the testset are "
        "0 (not known, 39 more needed)"
    ]
