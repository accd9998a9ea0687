"""What calls in a batch cost, told before they are sent and charged when they are answered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from judges.judgment import HOLISTIC
from judges.lm import LMRequest
from judges.models.connect import Models
from judges.program import seed_suite
from labeled_traces.dataset import Dataset
from pipeline.batch.prices import BatchPrices, file_cost
from pipeline.cost import REPLY_DEFAULT, suite_cost
from pipeline.dry_run import dry_run
from pipeline.prepare import with_knobs


@pytest.mark.parametrize("model", ["openai/gpt-5", "anthropic/claude-sonnet-4-5", "simulated/default"])
def test_a_file_is_counted_as_the_evaluation_counts(model: str, batch: Callable[..., dict[str, Any]]) -> None:
    """With the schema of the reply, which is prompt too; and the most that is said is that of the dearest tokens."""
    done = batch("export", "data.jsonl", "--model", model, "--holistic")
    suite = with_knobs(seed_suite(dimensions=(HOLISTIC,)), {"model": model})
    calls = dry_run(suite.programs.values(), Dataset.load(Path("data.jsonl")), 1, seed=0)
    assert done["prompt_tokens"] == sum(call.prompt for call in calls)
    cost = file_cost(Path("calls.jsonl"), LMRequest(model, ()), BatchPrices({}))
    assert (cost.calls, cost.prompt_tokens) == (done["calls"], done["prompt_tokens"])
    assert cost.most == pytest.approx(done["most_dollars"], rel=1e-3)
    if "claude" in model:
        # 3.75 dollars per million tokens that are put into the cache, 15 of replies; in a batch half of it.
        assert cost.most == pytest.approx((cost.prompt_tokens * 3.75 + cost.most_completion * 15) / 2e6, rel=1e-3)


@pytest.mark.parametrize("holistic", [True, False])
def test_replies_of_a_file_are_expected_as_those_of_the_evaluation(
    holistic: bool, batch: Callable[..., dict[str, Any]]
) -> None:
    """Plans are short, and what the holistic judge says is long."""
    model, kind = "openai/gpt-4o", ("--holistic",) if holistic else ()
    batch("export", "data.jsonl", "--model", model, *kind)
    suite = with_knobs(seed_suite(dimensions=(HOLISTIC,)) if holistic else seed_suite(), {"model": model})
    whole = suite_cost(suite, list(Dataset.load(Path("data.jsonl"))), 1, Models({}, 60))
    cost = file_cost(Path("calls.jsonl"), LMRequest(model, ()), BatchPrices({}))
    later = whole.calls - cost.calls
    assert later == (0 if holistic else 12), "judges that wait for plans"
    assert cost.completion_tokens == whole.completion_tokens - later * REPLY_DEFAULT


@pytest.mark.parametrize(
    ("model", "endpoint", "variables", "part"),
    [
        ("openai/gpt-5", "", {}, 0.5),
        ("openai/gpt-5", "", {"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, 1),
        ("openai/gpt-5", "", {"OPENAI_BASE_URL": "https://eu.api.openai.com/v1"}, 0.5),
        ("openai/gpt-5", "https://api.openai.com/v1", {"OPENAI_API_BASE": "http://127.0.0.1:1/v1"}, 0.5),
        ("openai/gpt-5", "https://notapi.openai.com.example/v1", {}, 1),
        ("anthropic/claude-sonnet-4-5", "", {}, 0.5),
        ("anthropic/claude-sonnet-4-5", "", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, 1),
        ("gemini/gemini-2.5-pro", "", {}, 1),
        ("simulated/default", "", {}, 1),
    ],
)
def test_only_those_who_ask_for_half_are_paid_half(
    model: str, endpoint: str, variables: dict[str, str], part: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert BatchPrices({}).part(LMRequest(model, (), endpoint=endpoint)) == part


def test_a_reply_of_the_simulated_model_that_tells_no_usage_is_free(batch: Callable[..., dict[str, Any]]) -> None:
    options = ("data.jsonl", "--model", "simulated/default", "--holistic")
    batch("export", *options)
    names = [json.loads(line)["custom_id"] for line in Path("calls.jsonl").read_text().splitlines()]
    Path("replies.jsonl").write_text("\n".join(json.dumps({"custom_id": name, "text": "fine"}) for name in names))
    done = batch("import", *options, "--replies", "replies.jsonl")
    assert (done["filed"], done["cost"]) == (6, 0.0)
