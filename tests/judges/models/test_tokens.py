"""Tests of counted tokens, against the tokenizer that they stand for."""

from __future__ import annotations

import pytest

from judges.models.litellm_transport import load_litellm
from judges.models.tokens import count_tokens, reasons
from judges.program import seed_suite
from judges.prompt import build_messages
from judges.render import estimate_tokens, render
from labeled_traces.simulated import simulate


@pytest.mark.parametrize("model", ["openai/gpt-5-mini", "openai/local", "groq/llama-3.1-8b-instant", "command-r"])
def test_prompts_are_counted_as_openai_counts_them(model: str) -> None:
    """Without a network: some of these models' own tokenizers would be fetched."""
    program = seed_suite().programs["tool_calling"]
    texts = [build_messages(program, render(row.trace, 24_000), None)[1].content for row in simulate(10, 0)]
    exact = sum(load_litellm().token_counter(model="gpt-4o", text=text) for text in texts)
    assert sum(count_tokens(text, model) for text in texts) == pytest.approx(exact, rel=0.01)
    assert sum(map(estimate_tokens, texts)) < 0.92 * exact, "bytes / 4 are too few"


@pytest.mark.parametrize("model", ["openai/Qwen3-8B", "gemini/gemini-2.5-flash", "ollama/gemma3"])
def test_where_digits_are_tokens_each_counts(model: str) -> None:
    text = 'order "1234567" of 2024-05-01'  # 123 456 7, 202 4, 05, 01
    assert count_tokens(text, model) == count_tokens(text, "openai/gpt-5") + 4 + 2 + 1 + 1


def test_simulated_models_count_bytes() -> None:
    assert count_tokens("x" * 41, "simulated/default") == 11


@pytest.mark.parametrize("text", ["", "\n\n\n", "a\ud83db", "<|endoftext|>", "\x00 日本 ✓"])
def test_any_text_can_be_counted(text: str) -> None:
    assert 0 <= count_tokens(text, "openai/x") <= 20


def test_models_that_reason_unasked() -> None:
    names = ["openai/gpt-5-mini", "openai/o4-mini", "openai/gpt-4o", "anthropic/claude-sonnet-4-5", "simulated/default"]
    assert [reasons(name) for name in [*names, "openai/any"]] == [True, True, False, False, False, False]
