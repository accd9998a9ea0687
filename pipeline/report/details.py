"""What the report shows beside the numbers: when and by which code, the changed texts, a finding as an example."""

from __future__ import annotations

import difflib
import html
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

from judges.judgment import Finding
from judges.program import JudgeProgram, JudgeSuite
from pipeline.evaluate import load_judgments
from pipeline.prepare import Run
from pipeline.run_folder import TUNED
from pipeline.run_tracking import code_hash

_LONGEST = 4000


@dataclass(frozen=True)
class Details:
    """`changed`: dimension -> part (or `knobs`) -> the difference, line by line. `example`: trace id and a finding of
    the tuned judges on a validation trace: nothing of the testset is shown."""

    date: str
    code: str
    changed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    example: tuple[str, Finding] | None = None

    @classmethod
    def of(cls, run: Run, tuned: JudgeSuite) -> Details:
        changed = {name: _changes(run.suite.programs[name], program) for name, program in tuned.programs.items()}
        return cls(
            date=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            code=code_hash(),
            changed={name: parts for name, parts in changed.items() if parts},
            example=_example(run, tuned),
        )


def details_html(details: Details) -> list[str]:
    """Sections of the page."""
    parts = ["<h2>What was changed in the judges</h2>"]
    if not details.changed:
        parts.append("<p class=dim>No text and no knob.</p>")
    for dimension, changes in details.changed.items():
        for part, difference in changes.items():
            title = f"{dimension}: {part}".replace("_", " ")
            parts.append(f"<details><summary>{html.escape(title)}</summary><pre>{_lines(difference)}</pre></details>")
    if details.example is not None:
        trace_id, finding = details.example
        about = f"{finding.dimension.replace('_', ' ')}, {finding.severity} severity, confidence {finding.confidence}"
        where = f"trace {trace_id}, span {', '.join(finding.span_ids) or '-'}"
        said = "".join(f"<blockquote>{html.escape(text)}</blockquote>" for text in _texts(finding))
        parts += ["<h2>A finding, as an example</h2>", "<p class=dim>Of the tuned judges, on a validation trace.</p>"]
        parts.append(f"<p>{html.escape(about)}; <code>{html.escape(where)}</code></p>{said}")
    return parts


def _texts(finding: Finding) -> list[str]:
    return [text for text in (finding.explanation, finding.evidence) if text]


def _lines(difference: str) -> str:
    colours = {"+": "better", "-": "worse", "@": "dim"}
    shown = []
    for line in difference.split("\n"):
        kind = colours.get(line[:1])
        text = html.escape(line)
        shown.append(f"<span class={kind}>{text}</span>" if kind else text)
    return "\n".join(shown)


def _changes(before: JudgeProgram, after: JudgeProgram) -> dict[str, str]:
    old, new = ({**program.parts, "knobs": _knobs(program)} for program in (before, after))
    return {name: _difference(old[name], new[name]) for name in new if old[name] != new[name]}


def _knobs(program: JudgeProgram) -> str:
    return "\n".join(f"{name}: {value}" for name, value in asdict(program.knobs).items())


def _difference(before: str, after: str) -> str:
    found = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=2)
    return "\n".join(line[:_LONGEST] for line in list(found)[2:])


def _example(run: Run, tuned: JudgeSuite) -> tuple[str, Finding] | None:
    """The surest reported finding at a labelled span, else the surest one, among the readings of the rule's search."""
    path = run.folder.judgments(f"development-{TUNED}")
    if not path.is_file():
        return None
    validation = {row.trace_id: row for row in run.manifest.development(run.dataset).valset}
    spans = {name: {error.span_id for error in row.errors} for name, row in validation.items()}
    found = [
        (bool(spans[judgment.trace_id] & set(finding.span_ids)), finding.confidence, judgment.trace_id, finding)
        for judgment in tuned.rule.apply(load_judgments(path))
        if judgment.trace_id in validation
        for finding in judgment.findings
    ]
    return max(found, key=lambda row: row[:3])[2:] if found else None
