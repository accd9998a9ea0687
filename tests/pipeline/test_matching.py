"""Which finding reports which label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.judgment import Finding, Judgment
from judges.program import Knobs, seed_suite
from judges.simulated_lm import SimulatedLM
from labeled_traces.dataset import LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.simulated import FaultRates, simulate
from labeled_traces.trace import Span, Trace
from pipeline.config import PipelineError
from pipeline.evaluate import EvaluateSettings, evaluate
from pipeline.matching import (
    SPAN_BONUS,
    TEXT_THRESHOLD,
    Floats,
    Pair,
    SpanMatcher,
    TextMatcher,
    build_matcher,
    match_cells,
)

WRONG_YEAR = "the database was asked for 2021 although the plan asks for 2023"
MISREAD = "the tool returned 48.1 but the executor recorded 41.8"
LOOP = "the same web search is repeated and its result never used"


def label(span: str | None, text: str, evidence: str = "") -> ErrorLabel:
    return ErrorLabel(span, ("tool_calling",), "category", Impact.HIGH, text, evidence)


def finding(text: str, *spans: str, evidence: str = "") -> Finding:
    return Finding("tool_calling", spans, text, evidence)


def rows(*errors: ErrorLabel) -> list[LabeledTrace]:
    return [LabeledTrace(Trace("t", (Span("s1", None, "x"), Span("s2", "s1", "y"))), errors)]


class TableMatcher:
    """Similarities as given, by the findings' and labels' texts."""

    name = "given"
    needs_span = False

    def __init__(self, similarity: dict[tuple[str, str], float]) -> None:
        self.similarity = similarity

    def similarities(self, pairs: Sequence[Pair]) -> Floats:
        return np.array([self.similarity.get((f.explanation, e.description), 0.0) for f, e in pairs])


def match(
    findings: list[Finding], errors: list[ErrorLabel], similarity: dict[tuple[str, str], float]
) -> set[tuple[int, int]]:
    return set(match_cells([(findings, errors)], TableMatcher(similarity))[0])


def test_span_matcher_asks_for_the_label_s_own_span() -> None:
    pairs = [
        (finding("", "s1", "s2"), label("s2", "")),
        (finding("", "s1"), label("s2", "")),
        (finding("", "s1"), label(None, "")),
    ]
    assert SpanMatcher().similarities(pairs).tolist() == [1.0, 0.0, 0.0]


def test_text_matcher_knows_the_same_problem_in_other_words() -> None:
    errors = [label("s1", WRONG_YEAR), label("s1", MISREAD), label("s1", LOOP)]
    matcher = build_matcher("text", rows(*errors))
    same = finding("The plan asks for 2023, but the database was asked for the year 2021.")
    similarities = matcher.similarities([(same, error) for error in errors])
    assert similarities[0] >= TEXT_THRESHOLD
    assert similarities[1:].tolist() == [0.0, 0.0]


def test_equal_texts_have_similarity_one_and_evidence_counts() -> None:
    errors = [label("s1", "a wrong value", "v1 = 41.8"), label("s1", LOOP)]
    matcher = build_matcher("text", rows(*errors), threshold=0.05)
    full, bare = matcher.similarities(
        [(finding("a wrong value", evidence="v1 = 41.8"), errors[0]), (finding("a wrong value"), errors[0])]
    )
    assert full == pytest.approx(1.0)
    assert full <= 1.0
    assert 0.05 < bare < 1.0


def test_threshold_decides() -> None:
    errors = [label("s1", WRONG_YEAR), label("s1", MISREAD)]
    pair = [(finding("the database was asked for 2021"), errors[0])]
    [similarity] = build_matcher("text", rows(*errors), threshold=0.01).similarities(pair)
    assert 0.2 < similarity < 0.99
    for threshold, expected in ((similarity - 0.01, similarity), (similarity + 0.01, 0.0)):
        [decided] = build_matcher("text", rows(*errors), threshold=float(threshold)).similarities(pair)
        assert decided == pytest.approx(expected)


def test_names_hold_kind_and_threshold() -> None:
    errors = rows(label("s1", LOOP))
    assert build_matcher("span", errors).name == "span"
    assert build_matcher("text", errors, 0.3).name == "text>=0.3"
    assert build_matcher("text", errors).name == f"text>={TEXT_THRESHOLD:g}"


@pytest.mark.parametrize("threshold", [0.0, -0.1, 1.01, float("nan")])
def test_threshold_out_of_range_is_refused(threshold: float) -> None:
    with pytest.raises(PipelineError, match="accepted is more than 0, at most 1"):
        build_matcher("text", rows(label("s1", LOOP)), threshold)


def test_unknown_kind_names_what_is_accepted() -> None:
    with pytest.raises(PipelineError, match="'lm' is unknown: accepted are span, text"):
        build_matcher("lm", [])


def test_labels_without_words_cannot_be_matched_by_text() -> None:
    with pytest.raises(PipelineError, match="use the span matcher"):
        TextMatcher(rows(label("s1", ""), label("s1", " . ")), 0.2)


def test_a_label_without_text_among_others_is_never_identified_by_text() -> None:
    errors = [label("s1", ""), label("s1", LOOP)]
    matcher = build_matcher("text", rows(*errors), 0.01)
    assert matcher.similarities([(finding("anything", "s1"), errors[0])]).tolist() == [0.0]


def test_assignment_is_one_to_one_and_has_the_largest_total() -> None:
    findings, errors = [finding("f0"), finding("f1")], [label("s1", "e0"), label("s1", "e1")]
    # Greedy would take (f0, e0) = .9 and then (f1, e1) = .1; the best total is .8 + .7.
    similarity = {("f0", "e0"): 0.9, ("f0", "e1"): 0.8, ("f1", "e0"): 0.7, ("f1", "e1"): 0.1}
    assert match(findings, errors, similarity) == {(0, 1), (1, 0)}


def test_pairs_that_do_not_identify_are_never_paired() -> None:
    findings, errors = [finding("f0", "s1"), finding("f1", "s1")], [label("s1", "e0"), label("s1", "e1")]
    assert match(findings, errors, {("f0", "e0"): 0.9}) == {(0, 0)}
    assert match(findings, errors, {}) == set()


def test_citing_the_span_breaks_ties_and_no_more() -> None:
    findings, errors = [finding("f0", "s2"), finding("f1", "s1")], [label("s1", "e")]
    assert match(findings, errors, {("f0", "e"): 0.5, ("f1", "e"): 0.5}) == {(1, 0)}
    assert match(findings, errors, {("f0", "e"): 0.5 + 1.1 * SPAN_BONUS, ("f1", "e"): 0.5}) == {(0, 0)}


def test_cells_do_not_share_findings_or_labels() -> None:
    error, report = label("s1", "e"), finding("f", "s1")
    cells = [([report], [error]), ([report, report], [error]), ([finding("f", "s2")], [error])]
    assert [len(pairs) for pairs in match_cells(cells, SpanMatcher())] == [1, 1, 0]
    assert match_cells([], SpanMatcher()) == []


@pytest.fixture(scope="module")
def simulated() -> list[tuple[Judgment, LabeledTrace]]:
    """What the simulated judges say of traces that hold errors."""
    data = list(simulate(80, 11, FaultRates().scaled(2.0)))
    suite = seed_suite(Knobs(model="simulated/forgetful"))
    by_id = {row.trace_id: row for row in data}
    judgments = evaluate(suite, data, SimulatedLM(), EvaluateSettings())
    return [(judgment, by_id[judgment.trace_id]) for judgment in judgments]


@pytest.mark.parametrize(("with_evidence", "least_precision", "least_recall"), [(True, 0.97, 0.97), (False, 0.95, 0.7)])
def test_text_matcher_on_simulated_judges(
    simulated: list[tuple[Judgment, LabeledTrace]], with_evidence: bool, least_precision: float, least_recall: float
) -> None:
    """The simulated judges word their explanations freely but quote what the label quotes: that is the truth here."""
    cells, truths = [], []
    for judgment, row in simulated:
        errors = row.errors_of(judgment.dimension)
        truths.append([{f for f, x in enumerate(judgment.findings) if x.evidence == e.evidence != ""} for e in errors])
        shown = [found if with_evidence else replace(found, evidence="") for found in judgment.findings]
        cells.append((shown, errors))
    matches = match_cells(cells, build_matcher("text", [row for _, row in simulated]))
    made = [f in truth[e] for pairs, truth in zip(matches, truths, strict=True) for f, e in pairs]
    reported = sum(bool(found) for truth in truths for found in truth)
    assert reported > 50
    assert sum(made) / len(made) >= least_precision
    assert sum(made) / reported >= least_recall


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0.0, 0.2, 0.5, 0.9]), min_size=n, max_size=n), min_size=1, max_size=4
        )
    )
)
def test_assignment_equals_the_best_of_all_pairings(weights: list[list[float]]) -> None:
    findings = [finding(f"f{i}") for i in range(len(weights))]
    errors = [label("s1", f"e{j}") for j in range(len(weights[0]))]
    similarity = {(f"f{i}", f"e{j}"): w for i, line in enumerate(weights) for j, w in enumerate(line)}
    pairs = match(findings, errors, similarity)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert all(weights[i][j] > 0 for i, j in pairs)
    padded = np.zeros((4, 4))
    padded[: len(weights), : len(weights[0])] = weights
    best = max(sum(padded[i, j] for i, j in enumerate(order)) for order in permutations(range(4)))
    assert sum(weights[i][j] for i, j in pairs) == pytest.approx(best)
