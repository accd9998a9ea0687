"""What the texts of a judge's prompt do to its reader: which failures it looks for, what calms it, where it points."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from judges.render import estimate_tokens
from judges.simulated_lm.alarms import THEMES, not_errors
from judges.simulated_lm.failures import FAILURES, described, kinds_of
from judges.simulated_lm.reading import Texts

NOTES = (
    r"\bplanner\b|\bplanning\b|writes? (a|the) (numbered )?plan|plan(s)? first",
    r"\bexecutor\b|\bexecut\w+|step by step|carries out|follows the plan",
    r"(cause|root|origin|source|already)[^.\n]{0,80}\bplan|\bplan\w*[^.\n]{0,60}(cause|root|origin)",
    r"final answer|last (span|step)|ends with|answers? from",
)
"""What notes can say of how an agent works; each is a quarter of their worth."""
FIRST_SPAN = r"first (appear|occur|aris|made|shown|enter)|where (it|the error) (begin|start|origin)|root cause|earliest"
EVIDENCE_ONLY = r"(only|unless|nothing)[^.\n]{0,60}(quot|evidence|prove|certain|sure)"


@dataclass(frozen=True)
class Traits:
    """`described` and `shown`: kind of failure -> how much the rubric says of it, and whether an example shows it.

    `notes` is the worth of the architecture notes, 0 to 1. `denied` holds the themes of false alarms (by place in the
    dimension's table) that the rubric says are no errors. `tokens` counts what a tuner can make longer.
    """

    described: Mapping[str, float]
    shown: frozenset[str]
    notes: float
    asks_first_span: bool
    asks_evidence: bool
    clean_example: bool
    has_exclusions: bool
    denied: frozenset[str]
    tokens: int


def read_traits(texts: Texts) -> Traits:
    denials = not_errors(texts.rubric + "\n" + texts.notes + "\n" + texts.template)
    asked = "\n".join(line for line in texts.rubric.splitlines() if line not in denials)
    replies = _example_replies(texts.examples)
    themes = THEMES.get(texts.dimension) or [theme for themes in THEMES.values() for theme in themes]
    return Traits(
        described={kind: described(kind, asked) for kind in FAILURES},
        shown=frozenset(kind for findings in replies for finding in findings for kind in _kinds(finding)),
        notes=sum(bool(re.search(cue, texts.notes, re.IGNORECASE)) for cue in NOTES) / len(NOTES),
        asks_first_span=bool(re.search(FIRST_SPAN, texts.template + texts.rubric, re.IGNORECASE)),
        asks_evidence=bool(re.search(EVIDENCE_ONLY, texts.template + texts.rubric, re.IGNORECASE)),
        clean_example=[] in replies,
        has_exclusions=bool(texts.exclusions),
        denied=frozenset(theme.cue for theme in themes if re.search(theme.cue, denials, re.IGNORECASE)),
        tokens=estimate_tokens(texts.rubric + texts.notes + texts.examples),
    )


def _example_replies(examples: str) -> list[list[str]]:
    """The explanations in each example's reply; an empty list is a clean example."""
    replies = []
    for line in re.findall(r"(?m)^Reply: (\{.*\})$", examples):
        try:
            reply = json.loads(line)
            findings = (reply if "findings" in reply else json.loads(reply["rationale"]))["findings"]
            replies.append([str(finding["explanation"]) for finding in findings])
        except (ValueError, KeyError, TypeError):
            continue
    return replies


def _kinds(explanation: str) -> tuple[str, ...]:
    """The kinds of failure that an example's explanation names before its colon, else those that it describes."""
    named = kinds_of(explanation.partition(":")[0])
    return named or tuple(kind for kind in FAILURES if described(kind, explanation) > 0.6)
