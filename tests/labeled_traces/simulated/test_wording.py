"""Descriptions: every variant has the checks' words and three people's, and kinds can be told apart by them."""

from __future__ import annotations

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from labeled_traces.simulated import FaultRates, find_problems, simulate
from labeled_traces.simulated.faults import VARIANTS
from labeled_traces.simulated.wording import VOICES, describe, quote

VALUES = {
    "step": 3, "got": "the GDP of Velmar", "need": "the GDP of Karsund", "name": "v1", "first": 1, "call": "f(x=1)",
    "planned": "f(x=2)", "tool": "db_lookup", "value": 4.5, "returned": 5.4, "times": 3, "asked": "How much?",
}  # fmt: skip


def test_each_voice_describes_each_variant_in_its_own_words() -> None:
    for variant in VARIANTS:
        sentences = {describe(variant, voice, **VALUES) for voice in range(VOICES + 1)}
        assert len(sentences) == 1 + VOICES
        assert not any("{" in sentence for sentence in sentences)


def test_a_quote_is_the_beginning() -> None:
    assert quote("short") == "short"
    assert quote("x" * 500) == "x" * 160


def test_the_most_similar_problem_of_a_trace_is_of_the_labels_kind() -> None:
    rows = simulate(400, 11, FaultRates().scaled(3))
    texts = [f"{e.description} {e.evidence}" for row in rows for e in row.errors]
    vectorizer = TfidfVectorizer().fit(texts)
    hits = []
    for row in rows:
        problems = find_problems(row.trace)
        if len({problem.kind for problem in problems}) < 2:
            continue
        said = vectorizer.transform([f"{p.description} {p.evidence}" for p in problems])
        labels = vectorizer.transform([f"{e.description} {e.evidence}" for e in row.errors])
        best = np.asarray((labels @ said.T).argmax(axis=1)).ravel()
        hits += [problems[i].kind == error.category for i, error in zip(best, row.errors, strict=True)]
    assert len(hits) > 300
    assert np.mean(hits) > 0.95
