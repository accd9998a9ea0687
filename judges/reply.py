"""Strict reading of a judge's reply: a verdict is taken from its final JSON object or not at all, never guessed.

Details that can be told for sure (a score "2", one span id instead of a list) are repaired and reported as warnings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from judges.final_object import NO_OBJECT, Form, final_object, last_object
from judges.judgment import HOLISTIC, Finding, Outcome
from judges.notation import clean
from judges.prompt import NOT_APPLICABLE, PLAN_DIMENSIONS
from labeled_traces.label import DIMENSIONS, SCORES, Impact, score_from_impacts
from labeled_traces.trace import TraceError

CUT = ("length", "max_tokens")
"""Finish reasons of a reply that ran into `max_tokens`."""

UNREADABLE_CONFIDENCE = 50
_REFUSAL = re.compile(
    r"\W*((i['’]?m|i am) (very |truly |so )?sorry|sorry|i apologi[sz]e|unfortunately|as an ai\b"
    r"|i (cannot|can['’]?t|can not|won['’]?t|will not|must decline|decline)|(i am|i['’]?m) (unable|not able))",
    re.IGNORECASE,
)
_POINTS = {str(score): score for score in SCORES}


@dataclass(frozen=True)
class ParsedReply:
    """`score` is None unless `outcome` is `scored`; `detail` says why."""

    outcome: Outcome
    score: int | None = None
    findings: tuple[Finding, ...] = ()
    rationale: str = ""
    detail: str = ""
    warnings: tuple[str, ...] = ()


def parse_reply(text: str | None, finish_reason: str, dimension: str, span_ids: Collection[str]) -> ParsedReply:
    """The reply as a verdict or as the outcome that says why there is none. Never raises.

    `span_ids` are the ids that the prompt showed: others are dropped with a warning.
    """
    verdict = partial(_verdict, dimension=dimension, span_ids=span_ids)
    return _parse(text, finish_reason, ("rationale", "findings", "score"), verdict)


def parse_mlflow_reply(text: str | None, finish_reason: str, dimension: str, span_ids: Collection[str]) -> ParsedReply:
    """`parse_reply` for the layout `mlflow`: only what MLflow keeps counts, that is `rationale` and `result`.

    The findings are the JSON object at the end of the rationale. If it is broken there is no verdict.
    """
    verdict = partial(_mlflow_verdict, dimension=dimension, span_ids=span_ids)
    return _parse(text, finish_reason, ("rationale", "result"), verdict)


def _parse(
    text: str | None, finish_reason: str, form: Form, verdict: Callable[[Mapping[str, Any]], ParsedReply]
) -> ParsedReply:
    def meaning(answer: Mapping[str, Any]) -> tuple[Any, ...]:
        parsed = verdict(answer)
        return parsed.outcome, parsed.score, parsed.findings

    text = (text or "").removeprefix("\ufeff")
    answer, problem = final_object(text, form, finish_reason in CUT, meaning)
    return ParsedReply(*_without_answer(text, finish_reason, problem)) if answer is None else verdict(answer)


def _mlflow_verdict(answer: Mapping[str, Any], dimension: str, span_ids: Collection[str]) -> ParsedReply:
    said, result = answer.get("rationale"), answer.get("result")
    reply = {"rationale": said, "score": _POINTS.get(result, result) if isinstance(result, str) else result}
    if isinstance(said, str):
        start, found, problem = last_object(said, ("findings",))
        if found is None and problem != NO_OBJECT:
            return ParsedReply(Outcome.UNPARSEABLE, detail=f"the findings in the rationale cannot be used: {problem}")
        if found is not None and "findings" in found:
            reply |= {"rationale": said[:start].strip(), "findings": found["findings"]}
    return _verdict(reply, dimension, span_ids)


def _verdict(answer: Mapping[str, Any], dimension: str, span_ids: Collection[str]) -> ParsedReply:
    warnings: list[str] = []
    score = _score(answer.get("score"), dimension, warnings)
    if score is None:
        said = repr(answer["score"])[:80] if "score" in answer else "missing"
        return ParsedReply(Outcome.UNPARSEABLE, detail=f"the score is {said}: accepted are {_accepted(dimension)}")
    findings = tuple(_findings(answer.get("findings"), dimension, frozenset(span_ids), warnings))
    rationale = _string(answer.get("rationale"), "rationale", warnings)
    if score == NOT_APPLICABLE:
        if findings:
            warnings.append(f"not_applicable with {len(findings)} findings: they are dropped")
        return ParsedReply(
            Outcome.NOT_APPLICABLE, rationale=rationale, detail="the judge says so", warnings=tuple(warnings)
        )
    implied = score_from_impacts(finding.severity for finding in findings)
    if implied != score:
        warnings.append(f"score {score} does not follow from the findings' severities, which give {implied}")
    return ParsedReply(Outcome.SCORED, int(score), findings, rationale, warnings=tuple(warnings))


def _without_answer(text: str, finish_reason: str, problem: str) -> tuple[Outcome, None, tuple[()], str, str]:
    outcome, detail = Outcome.UNPARSEABLE, f"the reply cannot be used: {problem}"
    if finish_reason in CUT:
        outcome, detail = Outcome.TRUNCATED, "the reply was cut at max_tokens"
    elif finish_reason in ("content_filter", "refusal") or ("{" not in text and _REFUSAL.match(text)):
        outcome, detail = Outcome.REFUSED, f"the model refused: {clean(text.strip())[:200]}"
    elif not text.strip():
        detail = "the reply is empty"
    return outcome, None, (), "", detail


def _accepted(dimension: str) -> str:
    return "0, 1, 2, 3" + (f" and {NOT_APPLICABLE}" if dimension in PLAN_DIMENSIONS else "")


def _score(value: Any, dimension: str, warnings: list[str]) -> int | str | None:
    """0-3, `not_applicable`, or None where the reply does not say."""
    if isinstance(value, str):
        word = re.sub(r"[\s_/-]+", "_", value.strip().lower())
        if re.fullmatch(r"[0-3](\.0+)?", word):
            warnings.append(f"the score {value!r} is a string")
            return int(word[0])
        is_na = word in (NOT_APPLICABLE, "n_a") and dimension in PLAN_DIMENSIONS
        return NOT_APPLICABLE if is_na else None
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in SCORES:
        return None
    return int(value)


def _findings(rows: Any, dimension: str, span_ids: Collection[str], warnings: list[str]) -> Iterator[Finding]:
    if rows is None:
        warnings.append("findings are missing")
        return
    if not isinstance(rows, list):
        warnings.append("findings are no list")
        rows = [rows]
    for number, row in enumerate(rows, 1):
        where = f"finding {number}"
        if isinstance(row, str):
            warnings.append(f"{where} is a text alone")
            row = {"explanation": row}
        if not isinstance(row, dict):
            warnings.append(f"{where} is no object: dropped")
            continue
        name = dimension if dimension != HOLISTIC else _dimension(row.get("dimension"))
        if name is None:
            warnings.append(f"{where} names no known dimension: dropped")
            continue
        yield Finding(
            dimension=name,
            span_ids=_span_ids(row.get("span_ids", row.get("span_id")), span_ids, where, warnings),
            explanation=_string(row.get("explanation"), f"{where}: explanation", warnings),
            evidence=_string(row.get("evidence", ""), f"{where}: evidence", warnings),
            severity=_severity(row.get("severity"), where, warnings),
            confidence=_confidence(row.get("confidence"), where, warnings),
        )


def _dimension(value: Any) -> str | None:
    word = re.sub(r"[\s-]+", "_", str(value).strip().lower())
    return next((name for name, code in DIMENSIONS.items() if word in (name, code.lower())), None)


def _string(value: Any, where: str, warnings: list[str]) -> str:
    if isinstance(value, str):
        return clean(value)
    warnings.append(f"{where} is {'missing' if value is None else 'no text'}")
    return "" if value is None else clean(json.dumps(value, ensure_ascii=False))


def _severity(value: Any, where: str, warnings: list[str]) -> Impact:
    try:
        return Impact.parse(value)
    except TraceError:
        warnings.append(f"{where}: severity {value!r:.40} is unknown: read as medium")
        return Impact.MEDIUM


def _confidence(value: Any, where: str, warnings: list[str]) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100:
        return value
    number = value
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,9}(\.\d{1,9})?\s*%?\s*", value):
        number = float(value.strip(" %\t\n"))
    if isinstance(number, bool) or not isinstance(number, int | float):
        warnings.append(f"{where}: confidence {value!r:.40} is unreadable: read as {UNREADABLE_CONFIDENCE}")
        return UNREADABLE_CONFIDENCE
    if isinstance(number, float) and 0 < number < 1:
        number *= 100
    read = int(min(max(number, 0), 100) + 0.5)
    warnings.append(f"{where}: confidence {value!r:.40} is read as {read}")
    return read


def _span_ids(value: Any, known: Collection[str], where: str, warnings: list[str]) -> tuple[str, ...]:
    """The known ids among those cited, each once, in their order."""
    if not isinstance(value, list) or not all(isinstance(cited, str) for cited in value):
        warnings.append(f"{where}: span_ids are no list of strings")
    kept: dict[str, None] = {}
    for cited in _flat(value):
        span_id = _known(cited, known)
        if span_id is None:
            parts = [_known(part, known) for part in cited.split(",")]
            if None in parts:
                warnings.append(f"{where}: span {clean(cited)!r:.80} is not in the trace")
            kept.update({part: None for part in parts if part is not None})
        else:
            kept[span_id] = None
    return tuple(kept)


def _known(cited: str, known: Collection[str]) -> str | None:
    """The trace's id that is meant: as cited, without white space, or without the quotes that its header shows."""
    bare = cited.strip().removeprefix("@span ")
    for form in (cited, bare, bare.strip('"')):
        if form in known:
            return form
    if bare.startswith('"'):
        try:
            decoded = json.loads(bare)
        except ValueError:
            return None
        return decoded if decoded in known else None
    return None


def _flat(value: Any) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(reversed(item))
        elif isinstance(item, str):
            yield item
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield str(item)
