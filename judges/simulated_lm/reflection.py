"""How the simulated model improves a part of a judge when it is told what went wrong, and how it gets that wrong."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

from judges.simulated_lm.alarms import not_errors, theme_of
from judges.simulated_lm.failures import FAILURES, described, kinds_of
from judges.simulated_lm.feedback import Feedback, read_feedback
from judges.simulated_lm.reading import ReflectionPrompt
from judges.simulated_lm.traits import EVIDENCE_ONLY, FIRST_SPAN, NOTES

NOTE_LINES = (
    "A planner writes a numbered plan first.",
    "An executor then carries out the plan step by step, one tool call or one recorded value a step.",
    "When a step of the execution looks wrong, read the plan first: the cause often lies in the plan, and a step that "
    "follows a bad plan to the letter is only where it shows.",
    "The final answer is written from the recorded values.",
)
"""One line for each of `NOTES`, in its order."""
HEADING = "### In particular"
"""Heads the lines that a rubric has learned."""
FIRST_SPAN_LINE = "Cite the span where the error first appears, its root cause, and not the later spans where it shows."
EVIDENCE_LINE = "Report a problem only if you can quote the text that proves it."
BLOAT = (
    "Be thorough, careful and complete, and think about everything that may matter. Good judgement matters. "
    "Consider each aspect in turn and weigh it with due care before you come to a balanced conclusion. "
)


def reflect(prompt: ReflectionPrompt, reflection_error: float, luck: random.Random) -> str:
    """The reply: a sentence and the new text between `<<<` and `>>>` lines."""
    text = new_text(prompt, reflection_error, luck)
    return f"(simulated) The feedback suggests this {prompt.part.replace('_', ' ')}.\n<<<\n{text}\n>>>"


def new_text(prompt: ReflectionPrompt, reflection_error: float, luck: random.Random) -> str:
    """The text that the reflection comes to."""
    if luck.random() < reflection_error:
        return luck.choice(MISTAKES)(prompt, luck)
    return IMPROVERS.get(prompt.part, _keep)(prompt, read_feedback(prompt.feedback), luck)


def _rubric(prompt: ReflectionPrompt, feedback: Feedback, luck: random.Random) -> str:
    """Describes the kinds that are missed most, one or two at a time, and denies the commonest complaint."""
    lines = _missing_bullets(prompt, feedback)[: luck.choice((1, 2, 2))]
    denials = not_errors(prompt.current)
    themes = Counter(
        theme.clause
        for complaint in feedback.complaints
        if (theme := theme_of(prompt.dimension, complaint)) and not re.search(theme.cue, denials, re.IGNORECASE)
    )
    lines += [clause for clause, _ in themes.most_common(1)]
    if not lines:
        return _reword(prompt, luck)
    return _append(prompt.current, lines if HEADING in prompt.current else ["", HEADING, *lines])


def _missing_bullets(prompt: ReflectionPrompt, feedback: Feedback) -> list[str]:
    """Rubric lines for what is missed and not yet fully described, commonest first."""
    bullets: list[str] = []
    for category, _ in feedback.missed.most_common():
        kinds = kinds_of(category)
        if not kinds and category and category not in prompt.current:
            bullets.append(f"- Look for this too, in every step: {category}.")
        bullets += [FAILURES[kind].bullet for kind in kinds if described(kind, prompt.current) < 1]
    return list(dict.fromkeys(bullets))


def _notes(prompt: ReflectionPrompt, feedback: Feedback, luck: random.Random) -> str:
    """Says how planner and executor work, two lines at a time, when findings are misplaced or without cause."""
    missing = [
        line for line, cue in zip(NOTE_LINES, NOTES, strict=True) if not re.search(cue, prompt.current, re.IGNORECASE)
    ]
    if not missing or not (feedback.causes or feedback.complaints or feedback.missed):
        return _reword(prompt, luck)
    return _append(prompt.current, missing[: luck.choice((2, 4))])


def _template(prompt: ReflectionPrompt, feedback: Feedback, luck: random.Random) -> str:
    lines = []
    if feedback.causes and not re.search(FIRST_SPAN, prompt.current, re.IGNORECASE):
        lines.append(FIRST_SPAN_LINE)
    if feedback.complaints and not re.search(EVIDENCE_ONLY, prompt.current, re.IGNORECASE):
        lines.append(EVIDENCE_LINE)
    return _append(prompt.current, lines) if lines else _reword(prompt, luck)


def _keep(prompt: ReflectionPrompt, feedback: Feedback, luck: random.Random) -> str:  # noqa: ARG001
    return prompt.current


def _append(text: str, lines: list[str]) -> str:
    return "\n".join([text.rstrip(), *lines]).strip()


def _reword(prompt: ReflectionPrompt, luck: random.Random) -> str:
    """Other words, the same meaning."""
    opening = luck.choice(("Read the whole trace before you judge.", "Work through the spans in their order."))
    return prompt.current if opening in prompt.current else _append(prompt.current, [opening])


def _drop_line(prompt: ReflectionPrompt, luck: random.Random) -> str:
    lines = [line for line in prompt.current.splitlines() if line.strip()]
    if len(lines) > 1:
        lines.pop(luck.randrange(len(lines)))
    return "\n".join(lines)


def _bloat(prompt: ReflectionPrompt, luck: random.Random) -> str:
    return _append(prompt.current, [BLOAT * luck.randint(10, 30)])


def _empty(prompt: ReflectionPrompt, luck: random.Random) -> str:  # noqa: ARG001
    return ""


def _copy(prompt: ReflectionPrompt, luck: random.Random) -> str:
    """Pastes words of the feedback, and with them whatever it quotes of a trace."""
    said = [line.rpartition("said: ")[2].removeprefix("- ") for line in prompt.feedback]
    return _append(prompt.current, [f"For example: {luck.choice(said)}"] if said else [])


def _rescale(prompt: ReflectionPrompt, luck: random.Random) -> str:  # noqa: ARG001
    return _append(prompt.current, ["Give a score from 0 to 10, where 10 is best."])


IMPROVERS: dict[str, Callable[[ReflectionPrompt, Feedback, random.Random], str]] = {
    "rubric": _rubric,
    "architecture_notes": _notes,
    "output_template": _template,
}
MISTAKES = (_reword, _drop_line, _bloat, _empty, _copy, _rescale)
