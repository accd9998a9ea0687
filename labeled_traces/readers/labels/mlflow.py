"""What people said about a trace in MLflow: valid feedback whose source is HUMAN, by the names that it bears.

- `gpa_<dimension>`, with a value 0-3: a score. Its rationale says why.
- `gpa_error`, at a span: an error. The value is its category, the rationale its description; of its metadata
  `dimensions` (names, with commas, or `none`; else what the taxonomy says of the category), `impact` (else medium) and
  `evidence` are read. Where nothing but text can be typed, the rationale may begin with the id of the span and the
  impact in brackets: `[a5397882eb4c630c] [high] the total is wrong`. The value `none` says that the person looked and
  found no error; so does an error of all that it is not.

All raters are kept, each with the time of what they said; what somebody has overridden was not said. A score
below 3 in a dimension without an error is an error too, one that nobody has placed. A score says nothing of other
dimensions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import get
from labeled_traces.label import DIMENSIONS, SCORES, ErrorLabel, Impact, ScoreLabel, not_placed
from labeled_traces.names import did_you_mean
from labeled_traces.raters import LOOKED_AT
from labeled_traces.readers.labels.joining import no_span
from labeled_traces.readers.mending.repair import canonical_id, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import seconds
from labeled_traces.trace import JSON, Trace

PREFIX = "gpa_"
"""Begins the names of all that judges and people say in MLflow."""
ERROR = "error"
NO_ERROR = "none"
NO_PERSON = "feedback that no person gave, not read as a label"
_SOURCES = ("HUMAN", "LLM_JUDGE", "AI_JUDGE", "CODE")
_SAYS = {"feedback", "expectation", "issue"}
_MARK = re.compile(r"\s*\[\s*([0-9a-fA-F]{16}|low|medium|high)\s*\]\s*", re.IGNORECASE)
"""What a rationale may begin with: the span, the impact."""


def label(
    trace: Trace, assessments: Sequence[JSON], where: str, options: ReadOptions, prefix: str = PREFIX
) -> LabeledTrace:
    """The trace with people's labels. What judges said is not read, nor what was overridden."""
    overridden = {str(row["overrides"]) for row in assessments if row.get("overrides") is not None}
    said = [row for row in assessments if _is_valid_human(row) and str(row.get("assessment_id")) not in overridden]
    unknown = [row for row in assessments if str(get(row, "source", "source_type")) not in _SOURCES]
    options.report.add("assessment of an unknown source, not read", where, len(unknown))
    others = [row for row in assessments if get(row, "source", "source_type") in _SOURCES[1:] and "feedback" in row]
    for row in others:
        options.report.add(NO_PERSON, f"{where}: {row.get('assessment_name')!r}")
    empty = [row for row in assessments if not _SAYS & row.keys()]
    options.report.add("assessment without feedback, expectation or issue, not read", where, len(empty))
    said.sort(key=lambda row: _time(row) or 0.0)
    errors: list[ErrorLabel] = []
    scores: dict[tuple[str, str], tuple[ScoreLabel, str]] = {}
    looked: dict[str, float | None] = {}
    for row in said:
        name, value = str(row.get("assessment_name") or ""), get(row, "feedback", "value")
        rater = str(get(row, "source", "source_id") or "")
        place = f"{where}, assessment {row.get('assessment_id')}"
        dimension = name.removeprefix(prefix)
        if name == f"{prefix}{ERROR}":
            if not isinstance(value, str) or not value.strip():
                options.report.add("error without a category, left out", f"{place}: {value!r}")
                continue
            nothing = value.strip().lower() == NO_ERROR
            looked[rater] = _time(row) if nothing else looked.get(rater)
            if not nothing:
                errors.append(_error(row, value, rater, trace, place, options))
        elif name.startswith(prefix) and dimension in DIMENSIONS:
            score = _score(value)
            if score is None:
                options.report.add("score that is none of 0-3", f"{place}: {value!r}")
                continue
            reason = str(mend_value(str(row.get("rationale") or ""), place, options))
            scores[dimension, rater] = ScoreLabel(dimension, score, rater, _time(row)), reason
        elif name.startswith(prefix):
            accepted = [f"{prefix}{known}" for known in (ERROR, *DIMENSIONS)]
            kind = "person's feedback under a name that is not read"
            options.report.add(kind, f"{place}: {name!r}{did_you_mean(name, accepted)}")
        else:
            options.report.add(f"person's feedback under a name without {prefix!r}, not read", f"{place}: {name!r}")
    errors += not_placed(errors, scores.values())
    given = tuple(score for score, _ in scores.values())
    clean = "checked" if looked else "unknown"
    times = {rater: time for rater, time in looked.items() if time is not None}
    about = {LOOKED_AT: times} if times else {}
    return LabeledTrace(*(trace, tuple(errors), given), clean=clean, raters=tuple(filter(None, looked)), metadata=about)


def is_labelled(row: LabeledTrace) -> bool:
    """Whether people have said anything about the trace."""
    return bool(row.errors or row.scores) or row.clean != "unknown"


def _is_valid_human(row: JSON) -> bool:
    return get(row, "source", "source_type") == "HUMAN" and row.get("valid") is not False and "feedback" in row


def _time(row: Mapping[str, JSON]) -> float | None:
    return seconds(row.get("last_update_time")) or seconds(row.get("create_time"))


def _score(value: JSON) -> int | None:
    """MLflow gives a whole number back as a float, and a category as text."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number in SCORES and not isinstance(value, bool) else None


def _error(
    row: Mapping[str, JSON], category: str, rater: str, trace: Trace, place: str, options: ReadOptions
) -> ErrorLabel:
    report, taxonomy = options.report, options.taxonomy
    about = report.mapping(row.get("metadata"), "metadata of an assessment", place)
    named = [name.strip() for name in str(about.get("dimensions") or "").split(",") if name.strip()]
    known = tuple(name for name in named if name in DIMENSIONS)
    if len(known) < len(named) and named != [NO_ERROR]:
        report.add("dimension that is unknown, left out", f"{place}: {', '.join(named)}")
    reason, marks = _marks(str(row.get("rationale") or ""))
    span_id = canonical_id(str(row.get("span_id") or marks.get("span") or ""), "hex") or None
    if span_id is not None and span_id not in trace.by_id:
        no_span(options, place, trace.trace_id, span_id)
        span_id = None
    impact = str(about.get("impact") or marks.get("impact") or "medium")
    if impact.strip().upper() not in Impact.__members__:
        report.add("impact that is unknown, medium taken", f"{place}: {impact!r}")
        impact = "medium"
    texts = [("description", reason), ("evidence", about.get("evidence"))]
    description, evidence = (str(mend_value(str(text or ""), f"{place}, {key}", options)) for key, text in texts)
    return ErrorLabel(
        span_id=span_id,
        dimensions=known if named else taxonomy.dimensions_of(category),
        category=category if named else options.category(category, place),
        impact=Impact.parse(impact),
        description=description,
        evidence=evidence,
        rater=rater,
        time=_time(row),
    )


def _marks(rationale: str) -> tuple[str, dict[str, str]]:
    """What a rationale says, and the span and the impact that stand before it."""
    marks: dict[str, str] = {}
    rest = rationale
    while found := _MARK.match(rest):
        marks.setdefault("span" if len(found[1]) == 16 else "impact", found[1].lower())
        rest = rest[found.end() :]
    return (rest, marks) if marks else (rationale, {})
