from __future__ import annotations

import json

import pytest

from judges.judgment import Judgment, Outcome
from judges.reply import parse_reply
from pipeline.read_warnings import loud, warning_kinds, warnings_in_words

SPANS = ("a", "b")


def judgment(number: int, *findings: object, score: object = 0, dimension: str = "holistic") -> Judgment:
    reply = json.dumps({"rationale": "so", "findings": findings, "score": score})
    read = parse_reply(reply, "stop", dimension, SPANS)
    return Judgment(f"t{number}", dimension, "p", 0, read.outcome, read.score, read.findings, warnings=read.warnings)


def finding(**changes: object) -> dict[str, object]:
    whole = {"dimension": "tool_calling", "span_ids": ["a"], "explanation": "x", "evidence": "", "severity": "high"}
    return {**whole, "confidence": 90, **changes}


def test_the_same_thing_in_many_replies_is_one_kind() -> None:
    judgments = [judgment(n, *[finding(dimension=f"no {n}")] * (n + 1)) for n in range(3)]
    judgments += [judgment(3, finding(span_ids=["a", "it's 7"])), judgment(4, finding(span_ids=["a", "zz"]))]
    judgments += [judgment(5, finding())]
    kinds = warning_kinds(judgments)
    assert kinds["a finding names no known dimension: dropped"] == 3
    assert kinds["a finding: span … is not in the trace"] == 2
    assert kinds["score … does not follow from the findings' severities, which give …"] == 3
    assert list(kinds.values()) == sorted(kinds.values(), reverse=True)
    assert warning_kinds([judgment(5, finding())]) == {}


def test_only_so_many_kinds_are_said() -> None:
    assert warnings_in_words({"a": 3, "b": 1}) == "3 x a; 1 x b"
    assert warnings_in_words(dict.fromkeys("abcdefg", 1)) == "1 x a; 1 x b; 1 x c; 1 x d; 1 x e; 2 more kinds"


@pytest.mark.parametrize(("count", "expected"), [(5, {}), (6, {"a": 6})])
def test_what_is_rare_is_not_loud(count: int, expected: dict[str, int]) -> None:
    assert loud({"a": count, "b": 1}, 100) == expected


def test_a_long_value_that_was_cut_ends_a_kind() -> None:
    cut = Judgment("t", "d", "p", 0, Outcome.SCORED, 3, warnings=("finding 1: severity 'very very is unknown",))
    assert warning_kinds([cut]) == {"a finding: severity …": 1}
