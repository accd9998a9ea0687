"""One pass in the simulated world. GPA_SEEDS=20 runs the experiment of which a few seeds are run here."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from judges.lm import BudgetExhausted
from labeled_traces.stable_split import stable_split
from pipeline.recalibration.decide import Decision, Work, decide
from pipeline.recalibration.labels import PassLabels

if TYPE_CHECKING:
    from tests.changed_agent import ChangedAgent

SEEDS = int(os.environ.get("GPA_SEEDS", "2"))


def test_without_a_change_nothing_is_promoted(tmp_path: Path, changed_agent: type[ChangedAgent]) -> None:
    decisions = Counter(
        changed_agent(tmp_path, changed_agent.settings(), reference_seed=seed)
        .run(100 + seed, changed_agent.BEFORE)
        .decision
        for seed in range(SEEDS)
    )
    print(dict(decisions))
    assert decisions[Decision.PROMOTED] <= 1
    assert decisions[Decision.FINE] >= SEEDS - 1 - SEEDS // 5


def test_a_change_is_noticed_and_a_better_judge_promoted(tmp_path: Path, changed_agent: type[ChangedAgent]) -> None:
    world = changed_agent(tmp_path, changed_agent.settings())
    found = world.run(23, world.AFTER)
    assert found.decision is Decision.PROMOTED
    assert found.drifted == ("f1",)
    assert found.result is not None
    assert found.result.verdict == "PASS"
    before, after = (found.result.sides[side].metrics["f1"].value for side in ("seed", "tuned"))
    gate = f"gate: PASS: f1 {before:.2f} -> {after:.2f}, {found.result.differences['f1'].value:+.2f} ["
    assert any(reason.startswith(gate) for reason in found.reasons)
    assert found.challenger is not None
    assert found.challenger.programs["plan_quality"] != world.champion().programs["plan_quality"]
    # What it is compared with from now on is what the gate measured of it, on labels that nothing was tuned on.
    assert found.reference.metrics["f1"] == pytest.approx(found.result.sides["tuned"].metrics["f1"].value)
    assert found.measured["f1"].value is not None
    assert found.reference.metrics["f1"] > found.measured["f1"].value
    again = world.run(23, world.AFTER)
    assert again.usage == found.usage
    assert again.challenger is not None
    assert again.challenger.hash == found.challenger.hash


def test_who_knows_no_reference_takes_one(tmp_path: Path, changed_agent: type[ChangedAgent]) -> None:
    settings = changed_agent.settings(matcher={"kind": "text"})
    found = changed_agent(tmp_path, settings).run(1, changed_agent.AFTER, 60)
    assert found.decision is Decision.BASELINE
    assert found.reference.matcher == "text>=0.3"
    assert found.reference.metrics["f1"] == pytest.approx(found.measured["f1"].value)
    assert found.result is None


def test_a_budget_ends_a_pass_and_a_larger_one_goes_on(tmp_path: Path, changed_agent: type[ChangedAgent]) -> None:
    world = changed_agent(tmp_path, changed_agent.settings(budget={"calls": 50}))
    with pytest.raises(BudgetExhausted):
        world.run(1, world.BEFORE, 60)
    found = replace(world, config=changed_agent.settings()).run(1, world.BEFORE, 60)
    assert found.decision in (Decision.FINE, Decision.KEPT)
    readings = 2 * len(world.DIMENSIONS) * (found.parts["trainset"] + found.parts["valset"])
    if found.decision is Decision.FINE:
        assert found.usage.calls == readings


def test_where_nothing_can_be_searched_no_call_is_made_for_it(
    tmp_path: Path, changed_agent: type[ChangedAgent]
) -> None:
    settings = changed_agent.settings(search={"settings": {"min_labels": 1000}})
    world = changed_agent(tmp_path, settings)
    found = world.run(23, world.AFTER)
    assert found.decision is Decision.KEPT
    assert "nothing can be searched" in found.reasons
    assert any("at least 1000 are needed" in reason for reason in found.reasons)
    assert found.usage.calls == 2 * len(world.DIMENSIONS) * (found.parts["trainset"] + found.parts["valset"])


def test_other_settings_bring_a_pass_no_new_budget(tmp_path: Path, changed_agent: type[ChangedAgent]) -> None:
    for calls in (850, 890):
        search = {"settings": {"max_calls": calls, "max_iterations": 6}}
        world = changed_agent(tmp_path, changed_agent.settings(budget={"calls": 300}, search=search))
        with pytest.raises(BudgetExhausted):
            world.run(23, world.AFTER)
    (ledger,) = tmp_path.rglob("ledger.sqlite")
    with closing(sqlite3.connect(ledger)) as db:
        assert db.execute("SELECT SUM(calls) FROM runs").fetchone()[0] <= 300


def test_drift_is_looked_for_in_fresh_labels_alone(tmp_path: Path, changed_agent: type[ChangedAgent]) -> None:
    world = changed_agent(tmp_path, changed_agent.settings())
    rows = changed_agent.rows(120, 5, world.BEFORE)
    manifest = stable_split(rows, 0, world.config.labels.fractions)
    labels = PassLabels(rows, manifest, frozenset(rows.ids[::2]))
    found = decide(Work(world.config, world.champion(), None, labels, tmp_path / "pass"), lambda _: None)
    read = labels.fresh & {*manifest.trainset, *manifest.valset}
    assert 0 < len(read) < found.parts["trainset"] + found.parts["valset"]
    assert found.usage.calls == 2 * len(world.DIMENSIONS) * len(read)
