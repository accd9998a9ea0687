"""From a prompt and what stands in the trace to a judge's reply: noticing, pointing, false alarms, a score."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from judges.judgment import HOLISTIC
from judges.prompt import NOT_APPLICABLE, PLAN_DIMENSIONS
from judges.simulated_lm.alarms import THEMES, Theme
from judges.simulated_lm.failures import FAILURES
from judges.simulated_lm.profiles import Profile
from judges.simulated_lm.reading import Texts
from judges.simulated_lm.sight import Sight
from judges.simulated_lm.traits import Traits
from labeled_traces.label import Impact, score_from_impacts
from labeled_traces.simulated.checks import Problem

MAX_FINDINGS, MAX_HOLISTIC_FINDINGS = 10, 24
MAX_EXPLANATION, MAX_EVIDENCE = 300, 200
"""Limits of the reply contract (`prompts/contract.md`)."""
CONCRETE = re.compile(
    r"\w+\([^()]*(?:\([^()]*\)[^()]*)*\)"  # a call
    r"|\([^()]+\?\)"  # a question
    r"|(?:the|top) [\w ]{1,30}(?: of)?(?: [A-Z]\w+)+ (?:in|from) \d{4}(?: to \d{4})?"  # a figure
    r"|\bstep \d+|</?\w+>|\w+_\w+|\bv\d+\b|-?\b\d[\d.,]*\d\b"
)
"""What a reader would quote: calls, questions, figures, steps, tags, identifiers, numbers."""
TRUE_CONFIDENCE = (80.0, 11.0)
ALARM_CONFIDENCE = (62.0, 15.0)
"""Mean and standard deviation: confidence carries some information, no more."""


@dataclass(frozen=True)
class Reader:
    """One reading of one prompt. `luck` is seeded by the request, so an equal request is read the same way."""

    profile: Profile
    texts: Texts
    traits: Traits
    sight: Sight
    luck: random.Random

    def reply(self) -> str:
        """The judge's reply, JSON as the contract asks for it."""
        if self.texts.dimension in PLAN_DIMENSIONS and self.sight.plan_source == "none" and not self.texts.has_plan:
            return _json("The trace holds no plan, so this dimension does not apply.", [], NOT_APPLICABLE)
        findings = [*self._true_findings(), *self._false_alarms()]
        findings.sort(key=lambda finding: -finding["confidence"])
        del findings[MAX_HOLISTIC_FINDINGS if self.texts.dimension == HOLISTIC else MAX_FINDINGS :]
        impacts = [Impact.parse(finding["severity"]) for finding in findings]
        score = score_from_impacts(impacts)
        if self._chance(self.profile.score_noise):
            score = min(3, max(0, score + self.luck.choice((-1, 1))))
        seen = f"{len(findings)} problem{'s' if len(findings) != 1 else ''}" if findings else "no problem"
        return _json(f"Read {len(self.sight.places)} spans and found {seen}.", findings, score)

    def _true_findings(self) -> Iterator[dict[str, Any]]:
        echo = self.profile.echo * (self.profile.clause_calm if self.traits.asks_first_span else 1.0)
        for problem in self.sight.problems:
            if not self._chance(self.notice_probability(problem)):
                continue
            dimension = self._dimension(problem)
            if dimension is None:
                continue
            severity = problem.impact
            if self._chance(self.profile.severity_noise):
                severity = Impact(min(3, max(1, severity + self.luck.choice((-1, 1)))))
            span_id = self._span(problem)
            yield self._finding(dimension, span_id, self._explain(problem), problem.evidence, severity, TRUE_CONFIDENCE)
            near = self.sight.neighbours.get(span_id, ())
            if near and self._chance(echo):
                text = self._explain(problem)
                yield self._finding(dimension, self.luck.choice(near), text, "", severity, ALARM_CONFIDENCE)

    def notice_probability(self, problem: Problem) -> float:
        """The chance that the error is seen at all: 1 - exp(-skill * focus * salience * attention / (1 + T / T0))."""
        profile, traits = self.profile, self.traits
        focus = profile.holistic_focus if self.texts.dimension == HOLISTIC else 1.0
        low = profile.low_salience
        salience = {Impact.LOW: low, Impact.MEDIUM: (1 + low) / 2, Impact.HIGH: 1.0}[problem.impact]
        attention = 1.0 + profile.described_gain * traits.described[problem.kind]
        if problem.kind in traits.shown:
            attention += profile.shown_gain
        if self.texts.has_plan:
            attention += profile.plan_gain
        dilution = 1.0 + max(0, traits.tokens - profile.prompt_tokens) / profile.prompt_tokens
        length = 1.0 + self.sight.tokens / profile.trace_tokens
        return 1.0 - math.exp(-profile.skill * focus * salience * attention / (length * dilution))

    def _dimension(self, problem: Problem) -> str | None:
        """The dimension to report an error under; None where it is not this judge's and does not leak in."""
        own = self.texts.dimension
        if own == HOLISTIC:
            return self.luck.choice(problem.dimensions)
        if own in problem.dimensions:
            return own
        leak = self.profile.leak * (1.0 if self.traits.has_exclusions else self.profile.no_exclusions)
        return own if self._chance(leak) else None

    def _span(self, problem: Problem) -> str:
        """The root cause, or the symptom, or now and then a neighbour of what was meant."""
        aim = self.profile.aim + self.profile.notes_aim * self.traits.notes
        if self.traits.asks_first_span:
            aim += self.profile.template_aim
        if problem.symptom_id in self.sight.neighbours.get(problem.span_id, ()):
            aim += (1.0 - aim) / 2
        span_id = problem.span_id if self._chance(min(aim, 0.98)) else problem.symptom_id
        near = self.sight.neighbours.get(span_id, ())
        return self.luck.choice(near) if near and self._chance(self.profile.slip) else span_id

    def _explain(self, problem: Problem) -> str:
        wording = self.luck.choice(FAILURES[problem.kind].wordings)
        return wording.replace("{facts}", _facts(problem))

    def _false_alarms(self) -> Iterator[dict[str, Any]]:
        dimensions = list(THEMES) if self.texts.dimension == HOLISTIC else [self.texts.dimension]
        calm = self._calm()
        for dimension in dimensions:
            for theme in THEMES.get(dimension, ()):
                rate = self.profile.alarm_rate * theme.share * calm
                if theme.cue in self.traits.denied:
                    rate *= self.profile.clause_calm
                yield from self._alarms(dimension, theme, rate)

    def _alarms(self, dimension: str, theme: Theme, rate: float) -> Iterator[dict[str, Any]]:
        for step in self.sight.steps:
            if self._chance(rate * step.oddness):
                severity = self.luck.choices(list(Impact), self.profile.alarm_severity)[0]
                text = f"{self.luck.choice(theme.wordings)} ({step.place})"
                yield self._finding(dimension, step.span_id, text, step.quote, severity, ALARM_CONFIDENCE)

    def _calm(self) -> float:
        """What the prompt leaves of the false alarms, as a factor."""
        profile, traits = self.profile, self.traits
        factor = 1.0 if traits.has_exclusions else profile.no_exclusions
        if self.texts.dimension == HOLISTIC:
            factor *= profile.holistic_focus
        factor *= 1.0 - (1.0 - profile.notes_calm) * traits.notes
        if traits.clean_example:
            factor *= profile.notes_calm
        if traits.asks_evidence:
            factor *= (1.0 + profile.notes_calm) / 2
        return factor

    def _finding(
        self,
        dimension: str,
        span_id: str,
        explanation: str,
        evidence: str,
        severity: Impact,
        confidence: tuple[float, float],
    ) -> dict[str, Any]:
        finding = {
            "span_ids": [span_id],
            "explanation": explanation[:MAX_EXPLANATION],
            "evidence": evidence[:MAX_EVIDENCE],
            "severity": str(severity),
            "confidence": round(min(99.0, max(5.0, self.luck.gauss(*confidence)))),
        }
        return {**finding, "dimension": dimension} if self.texts.dimension == HOLISTIC else finding

    def _chance(self, probability: float) -> bool:
        return self.luck.random() < probability


def _facts(problem: Problem) -> str:
    """The concrete things that a description names, without its sentence."""
    found = (match[0].strip() for match in CONCRETE.finditer(problem.description))
    return ", ".join(dict.fromkeys(found)) or "see the quoted text"


def _json(rationale: str, findings: list[dict[str, Any]], score: int | str) -> str:
    reply = {"rationale": f"(simulated) {rationale}", "findings": findings, "score": score}
    return json.dumps(reply)
