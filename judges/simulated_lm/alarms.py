"""What a judge complains of that is no error: themes of false alarms, and the rubric clause that ends each."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Theme:
    """One habit of a judge that sees errors where there are none.

    `share` is its part of the dimension's false alarms. `cue` matches a text that speaks of it. `clause` is the rubric
    line that a careful author writes against it. `wordings` are the complaints.
    """

    share: float
    cue: str
    clause: str
    wordings: tuple[str, ...]


THEMES: dict[str, tuple[Theme, ...]] = {
    "goal_fulfillment": (
        Theme(
            0.6,
            r"source|citation|cite|where it comes from|caveat",
            "- Not an error: an answer that gives no source or caveat, when nobody asked for one.",
            ("No source is cited, so the user cannot tell where it comes from.", "A caveat would be in place here."),
        ),
        Theme(
            0.4,
            r"round|decimal|unit is|spelled out|precision",
            "- Not an error: a figure that is rounded, or whose unit is clear but not spelled out.",
            (
                "How far the figure is rounded is left open.",
                "Its unit is not spelled out, which may confuse the user.",
            ),
        ),
    ),
    "logical_consistency": (
        Theme(
            0.6,
            r"implicit|unstated|spell(s|ed)? out|assum|justif",
            "- Not an error: an implicit assumption or an unstated reason that the task itself makes plain.",
            (
                "The reasoning makes an implicit assumption that nothing justifies.",
                "Why this follows is left unstated.",
            ),
        ),
        Theme(
            0.4,
            r"wording|phras|terminolog|rename",
            "- Not an error: other wording or another name for the same thing in a later step.",
            ("The wording shifts between steps, so the chain is hard to follow.", "Terminology is not kept constant."),
        ),
    ),
    "execution_efficiency": (
        Theme(
            0.6,
            r"merge|combin|one call|separate|fewer",
            "- Not an error: separate calls for separate values where the plan asks for each, even if fewer would do.",
            (
                "Separate calls could have been merged into one.",
                "Fewer steps would do, some of this work could be combined.",
            ),
        ),
        Theme(
            0.4,
            r"\bturns?\b|hand-?over|book-?keeping|overhead",
            "- Not an error: a turn that only records a value, book-keeping that the agent is built to do.",
            ("A whole turn is spent on book-keeping.", "This hand-over is overhead and could be spared."),
        ),
    ),
    "plan_quality": (
        Theme(
            0.6,
            r"fallback|contingen|fail(s|ure)? handling|error handling",
            "- Not an error: a plan without fallback or contingency where no failure was to be expected.",
            ("There is no fallback in case a call fails.", "Contingencies are not thought of."),
        ),
        Theme(
            0.4,
            r"verif|double-?check|sanity|final check",
            "- Not an error: a plan without a step that verifies or double-checks its result.",
            ("No step verifies the result before it is given.", "A final sanity check was not planned."),
        ),
    ),
    "plan_adherence": (
        Theme(
            0.6,
            r"order|sequence|reorder",
            "- Not an error: another order of steps that do not depend on each other.",
            ("The order of work seems to differ from the intended sequence.", "Things were reordered without comment."),
        ),
        Theme(
            0.4,
            r"announc|explicit(ly)? refer|mention|comment",
            "- Not an error: a step that is carried out but not announced or mentioned by number.",
            (
                "Which step of the plan this carries out is not mentioned.",
                "It does not explicitly refer back to the plan.",
            ),
        ),
    ),
    "tool_selection": (
        Theme(
            0.6,
            r"simple|trivial|mental|no tool (is )?needed|unnecessar",
            "- Not an error: a tool for a simple operation that could also be done without one.",
            (
                "A tool is unnecessary for something so simple.",
                "This is trivial and could be done by mental arithmetic.",
            ),
        ),
        Theme(
            0.4,
            r"rationale|why this tool|explain(s|ed)? (its|the) choice|justif",
            "- Not an error: no rationale for a choice of tool that plainly fits.",
            ("Why this tool was picked is not explained.", "The choice comes without a rationale."),
        ),
    ),
    "tool_calling": (
        Theme(
            0.6,
            r"optional|default|left out of the call",
            "- Not an error: an optional argument that is left to its default.",
            ("Optional parameters are left to their default.", "The call relies on a default that might be unwanted."),
        ),
        Theme(
            0.4,
            r"spell|abbrev|capital|in full",
            "- Not an error: another spelling, abbreviation or capitalisation that the tool accepts.",
            ("A name is abbreviated instead of given in full.", "Spelling of the input is not normalised."),
        ),
    ),
}
"""Dimension -> its themes; the shares add up to 1."""


def not_errors(text: str) -> str:
    """The lines and sentences of a text that say what is not an error."""
    return "\n".join(
        re.findall(r"(?im)^.*\b(?:not an error|no error|do not report|never report|not a fault)\b.*$", text)
    )


def theme_of(dimension: str, complaint: str) -> Theme | None:
    """The theme that a complaint belongs to, None where it fits none."""
    return next((theme for theme in THEMES.get(dimension, ()) if re.search(theme.cue, complaint, re.IGNORECASE)), None)
