from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from judges.ledger.budget import Budget, Price, Usage
from judges.ledger.store import Ledger
from judges.lm import JudgeError, LMReply
from judges.models.connect import Models, open_lm
from judges.program import Knobs, seed_suite
from labeled_traces.simulated import simulate
from pipeline.config import PipelineError
from pipeline.consent import Consent
from pipeline.cost import Cost, Kept, announce, compared, suite_cost, uncounted_cost
from pipeline.evaluate import EvaluateSettings, evaluate

ROWS = simulate(6, 0)
NAMES = ("goal_fulfillment", "tool_calling")
MINE = Knobs(model="openai/mine")
FREE = Models({}, 60)


def test_a_simulated_model_is_free() -> None:
    cost = suite_cost(seed_suite(dimensions=NAMES), ROWS, 3, FREE)
    assert cost.calls == 2 * 6 * 3
    assert cost.dollars == 0
    assert cost.simulated
    assert "free: the model is simulated" in cost.in_words(Budget())


@pytest.mark.parametrize("readings", [0.4, 1, 2.5, 7])
def test_readings_need_not_be_whole(readings: float) -> None:
    """A search reads so many traces, not the split so many times."""
    cost = suite_cost(seed_suite(dimensions=NAMES), ROWS, readings, FREE)
    one = suite_cost(seed_suite(dimensions=NAMES), ROWS, 1, FREE)
    assert cost.calls == round(readings * 12)
    assert cost.prompt_tokens == pytest.approx(readings * one.prompt_tokens, rel=0.001)


def test_a_given_price_counts() -> None:
    suite = seed_suite(MINE, NAMES)
    cost = suite_cost(suite, ROWS, 1, Models({"openai/mine": Price(2.0, 10.0)}, 60))
    assert cost.known == pytest.approx((2 * cost.prompt_tokens + 10 * cost.completion_tokens) / 1e6, rel=0.001)
    assert cost.most == pytest.approx((2 * cost.prompt_tokens + 10 * 12 * 2048) / 1e6, rel=0.001)
    assert not cost.simulated
    assert f"about {cost.known:.2f} dollars, at most {cost.most:.2f}" in cost.in_words(Budget())


def test_cached_tokens_are_expected_at_their_price() -> None:
    """All judges of a trace but the first, and all later readings, share its beginning."""
    suite, prices = seed_suite(MINE), {"openai/mine": Price(2.0, 10.0, 0.5)}
    once, thrice = (suite_cost(suite, ROWS, readings, Models(prices, 60)) for readings in (1, 3))
    assert 0.35 < once.cached_tokens / once.prompt_tokens < 0.65
    assert thrice.cached_tokens / thrice.prompt_tokens > 0.75
    plain = (thrice.prompt_tokens - thrice.cached_tokens) * 2.0
    assert thrice.known == pytest.approx(
        (plain + thrice.cached_tokens * 0.5 + thrice.completion_tokens * 10) / 1e6, rel=0.001
    )
    assert f"({thrice.cached_tokens / thrice.prompt_tokens:.0%} of them can come from" in thrice.in_words(Budget())


def test_what_is_not_known_to_be_cheaper_is_not_expected_to_be_cached() -> None:
    assert suite_cost(seed_suite(MINE), ROWS, 3, Models({"openai/mine": Price(2.0, 10.0)}, 60)).cached_tokens == 0
    assert suite_cost(seed_suite(), ROWS, 3, FREE).cached_tokens == 0


def test_short_prompts_are_not_cached_by_hosted_providers() -> None:
    prices = {"openai/mine": Price(2.0, 10.0, 0.5)}
    short = seed_suite(Knobs(model="openai/mine", trace_tokens=300))
    local = seed_suite(Knobs(model="openai/mine", trace_tokens=300, endpoint="http://127.0.0.1:1/v1"))
    assert suite_cost(short, ROWS, 1, Models(prices, 60)).cached_tokens == 0
    assert suite_cost(local, ROWS, 1, Models(prices, 60)).cached_tokens > 0


def test_a_long_evaluation_does_not_make_prompts_long() -> None:
    """Some models have a higher price for prompts of more than 200,000 tokens: those of one call."""
    cost = suite_cost(seed_suite(Knobs(model="gemini/gemini-2.5-pro")), simulate(80, 0), 1, FREE)
    assert cost.prompt_tokens > 200_000
    assert cost.most == pytest.approx(cost.prompt_tokens * 1.25e-6 + cost.most_completion * 10e-6, rel=0.001)


def test_a_model_that_reasons_writes_more() -> None:
    plain, reasons = (
        suite_cost(seed_suite(Knobs(model=f"openai/{name}"), NAMES), ROWS, 1, FREE) for name in ("gpt-4o", "gpt-5-mini")
    )
    assert reasons.completion_tokens == plain.completion_tokens + 12 * 800


KNOWN = Cost(1, 2, 3, 0.5, paid=frozenset({"openai/mine"}))


def test_unknown_stays_unknown_in_a_sum() -> None:
    unknown = Cost(10, 20, 30, paid=frozenset({"openai/x"}), unpriced=frozenset({"openai/x"}))
    both = KNOWN + unknown
    assert (both.calls, both.prompt_tokens, both.completion_tokens, both.dollars) == (11, 22, 33, None)
    assert (KNOWN + KNOWN).dollars == 1.0
    assert "unknown price of openai/x" in both.in_words(Budget())


def test_what_is_paid_is_never_called_free() -> None:
    """The judges are simulated, the reflection model is not."""
    free = suite_cost(seed_suite(dimensions=NAMES), ROWS, 1, FREE)
    for model, money in (
        ("openai/x", "unknown price of openai/x"),
        ("openai/mine", "about 0.00 dollars, at most 0.00"),
    ):
        total = free + uncounted_cost(model, Models({"openai/mine": Price(2.0, 10.0)}, 60))
        assert not total.simulated
        assert total.in_words(Budget()).endswith(f"{money}; what {model} takes to write proposals comes on top")
    assert free + uncounted_cost("simulated/default", FREE) == free


def test_an_unknown_price_under_a_cap_is_refused_before_anything_is_spent() -> None:
    cost = KNOWN + uncounted_cost("openai/x", FREE)
    with pytest.raises(JudgeError, match="the price of openai/x is unknown"):
        announce(cost, Budget(dollars=5), lambda _: None)
    said: list[str] = []
    announce(cost, Budget(calls=5), said.append)
    announce(KNOWN, Budget(dollars=5), said.append)
    assert len(said) == 2


def spent_tokens(ledger: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(ledger)) as db:
        prompts, replies = db.execute("SELECT SUM(prompt_tokens), SUM(completion_tokens) FROM calls").fetchone()
    return prompts, replies


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("extraction", [True, False])
def test_what_is_announced_is_what_is_spent(tmp_path: Path, repeats: int, extraction: bool) -> None:
    """From a cold ledger, where every trace has a plan: equal calls, and prompts that differ by 3 % at most."""
    suite, rows = seed_suite(Knobs(plan_extraction=extraction)), simulate(30, 1)
    cost = suite_cost(suite, rows, repeats, FREE)
    with open_lm(tmp_path / "ledger.sqlite", "run") as lm:
        judgments = evaluate(suite, rows, lm, EvaluateSettings(repeats=repeats))
        spent = lm.spent()
    assert cost.calls == spent.calls == len(rows) * (7 * repeats + extraction)
    prompts, replies = spent_tokens(tmp_path / "ledger.sqlite")
    assert cost.prompt_tokens == pytest.approx(prompts, rel=0.03)
    assert cost.completion_tokens == pytest.approx(replies, rel=0.15)
    assert cost.most_completion >= replies
    assert {str(judgment.outcome) for judgment in judgments} == {"scored"}


def test_only_what_is_not_in_the_ledger_is_to_be_paid(tmp_path: Path) -> None:
    """An evaluation of five traces, then of all, then with more repeats, then with another seed."""
    suite, path = seed_suite(), tmp_path / "ledger.sqlite"
    with open_lm(path, "run") as lm:
        evaluate(suite, ROWS[:5], lm, EvaluateSettings(seed=3))
    with Ledger(path, read_only=True) as ledger:
        found = [
            suite_cost(suite, rows, repeats, FREE, Kept(ledger.find, seed))
            for rows, repeats, seed in ((ROWS[:5], 1, 3), (ROWS, 1, 3), (ROWS, 2, 3), (ROWS, 1, 4))
        ]
    assert [(cost.kept, cost.calls) for cost in found] == [(40, 0), (40, 8), (40, 50), (0, 48)]
    assert "cost: nothing: all 40 calls are in the ledger" in found[0].in_words(Budget())
    assert "40 of 48 calls are in the ledger and cost nothing" in found[1].in_words(Budget())


def test_kept_replies_tell_how_long_replies_are(tmp_path: Path) -> None:
    suite, path, rows = seed_suite(), tmp_path / "ledger.sqlite", simulate(40, 5)
    with open_lm(path, "run") as lm:
        evaluate(suite, rows[:20], lm)
    with Ledger(path, read_only=True) as ledger:
        cost = suite_cost(suite, rows, 1, FREE, Kept(ledger.find))
    _, before = spent_tokens(path)
    with open_lm(path, "run") as lm:
        evaluate(suite, rows, lm)
    assert cost.completion_tokens == pytest.approx(spent_tokens(path)[1] - before, rel=0.1)


@pytest.mark.parametrize("hits", [0.0, 0.5, 1.0])
def test_kept_replies_tell_how_a_model_counts_and_what_its_cache_serves(hits: float) -> None:
    """A tokenizer that takes twice as many tokens, replies of 500 tokens, and a cache that serves half of it."""
    suite, models = seed_suite(MINE), Models({"openai/mine": Price(2.0, 10.0, 0.5)}, 60)
    rows = simulate(12, 0)
    plain = suite_cost(suite, rows, 2, models)
    able = plain.cached_tokens / plain.prompt_tokens
    plan = '{"source": "labelled", "plans": [{"span_id": "", "text": "1. look"}]}'
    usual = 2 * plain.prompt_tokens // plain.calls
    reply = LMReply(plan, "stop", usual, 500, round(usual * able * hits))
    half: list[str] = []

    def answered(key: str) -> LMReply:
        half.append(key)
        return reply

    suite_cost(suite, rows[::2], 2, models, Kept(answered))
    cost = suite_cost(suite, rows, 2, models, Kept(lambda key: reply if key in half else None))
    assert cost.completion_tokens == 500 * cost.calls
    assert cost.prompt_tokens / cost.calls == pytest.approx(usual, rel=0.1)
    assert cost.cached_tokens / cost.prompt_tokens == pytest.approx(able * hits, rel=0.15)


def test_kept_replies_that_do_not_tell_their_length_are_not_taken_for_empty() -> None:
    """A person's, or a gateway's that counts prompts alone."""
    suite = seed_suite(MINE, NAMES)
    usual = suite_cost(suite, ROWS, 1, FREE)
    half: list[str] = []

    def answered(key: str) -> LMReply:
        half.append(key)
        return LMReply("fine", prompt_tokens=1000)

    suite_cost(suite, ROWS, 1, FREE, Kept(answered))
    cost = suite_cost(suite, ROWS, 2, FREE, Kept(lambda key: answered(key) if key in half else None))
    assert (cost.calls, cost.kept) == (12, 12)
    assert cost.completion_tokens == usual.completion_tokens


def test_earlier_replies_tell_how_long_replies_are() -> None:
    suite = seed_suite(MINE, ("plan_quality", "tool_calling"))
    kept = Kept(lengths={"openai/mine": {"tool_calling": 500.0, "": 400.0}, "openai/x": {"": 9.0}})
    cost = suite_cost(suite, ROWS, 1, FREE, kept)
    assert cost.completion_tokens == 6 * (500 + 400 + 200), "nothing is known of plans"


def test_it_says_what_ends_it() -> None:
    cost = Cost(20_000, 1_500_000, 2_000, 1.0, frozenset({"openai/mine"}), most_completion=9_000, most=2.0)
    text = cost.in_words(Budget(calls=1000, dollars=2.5))
    assert "cost: up to about 20,000 calls, 1.5 million tokens of prompts and 2 thousand of replies (at most 9" in text
    assert "about 1.00 dollars, at most 2.00; the budget ends it at 1,000 calls or 2.5 dollars: if it takes" in text


def test_it_is_said_beside_what_was_spent() -> None:
    before, after = Usage(1, 1000, 0.5), Usage(3, 4000, 1.75)
    cost = Cost(2, 2000, 900, 1.2, paid=frozenset({"openai/mine"}))
    said = "spent now: 2 calls, 3 thousand tokens, 1.25 dollars; expected were 2 and 2.9 thousand, 1.20 dollars"
    assert compared(cost, before, after) == said
    assert "dollars" not in compared(Cost(2, 2000, 900), before, after)


def test_no_rows_cost_nothing() -> None:
    assert suite_cost(seed_suite(dimensions=NAMES), [], 3, FREE) == Cost()


def test_a_model_of_unknown_price_that_is_not_on_this_machine_needs_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setattr(sys, "stdin", None)
    cost = Cost(10, 20, 30, paid=frozenset({"openai/x"}), unpriced=frozenset({"openai/x"}))

    def start(cost: Cost, endpoint: str = "") -> None:
        announce(cost, Budget(), lambda _: None, Consent(), {("openai/x", endpoint)})

    for far in ("", "http://gpu.example:8000/v1", "http://10.0.0.7/v1", "https://localhost.example/v1"):
        with pytest.raises(PipelineError, match="the price of openai/x is unknown"):
            start(cost, far)
        with pytest.raises(PipelineError, match="the price of openai/x is unknown"):
            start(uncounted_cost("openai/x", FREE), far)
    for near in ("http://127.0.0.1:8000/v1", "http://localhost:8000", "http://[::1]:8000/v1"):
        start(cost, near)
    both = {("openai/x", "http://127.0.0.1:8000/v1"), ("openai/x", "")}
    with pytest.raises(PipelineError, match="the price of openai/x is unknown"):  # one name at two places
        announce(cost, Budget(), lambda _: None, Consent(), both)
    start(replace(cost, calls=0, kept=10))
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    start(cost)


def test_what_is_spent_of_a_budget_and_that_it_will_not_do_is_told() -> None:
    spent = Usage(7, 3000, 5.2)
    cost = Cost(200, 1_500_000, 2_000, 15.0, frozenset({"openai/mine"}), most=20.0)
    short = ": if it takes what is expected, it will not finish within the budget"
    for budget, included, said in (
        (Budget(dollars=20), False, f"; the budget ends it at 20 dollars, of which 5.20 are spent already{short}"),
        (Budget(dollars=20), True, "; the budget ends it at 20 dollars, of which 5.20 are spent already"),
        (Budget(dollars=20.2), False, "; the budget ends it at 20.2 dollars, of which 5.20 are spent already"),
        (Budget(calls=206), False, f"; the budget ends it at 206 calls, of which 7 are spent already{short}"),
    ):
        assert cost.in_words(budget, spent, included).endswith(said)
    assert cost.in_words(Budget(tokens=10**6)).endswith(f"; the budget ends it at 1,000,000 tokens{short}")
