"""How the simulated models differ: a few numbers each. None of them describes a real model."""

from __future__ import annotations

from dataclasses import dataclass

from judges.lm import JudgeError

PREFIX = "simulated/"


@dataclass(frozen=True)
class Profile:
    """Rates are probabilities, gains multiply or add as said. The defaults are those of a forgetful reader.

    It notices an error with probability 1 - exp(-skill * focus * salience * attention / (1 + T / trace_tokens)).
    """

    skill: float = 2.6
    """How well it reads with nothing to help it."""
    holistic_focus: float = 0.36
    """`focus` of one prompt for all dimensions; one dimension has focus 1."""
    low_salience: float = 0.7
    """`salience` of a low-impact error; a high-impact one has 1, a medium-impact one lies between."""
    trace_tokens: float = 12_000
    """The trace length (tokens) at which the exponent is halved."""
    prompt_tokens: int = 2_000
    """The length (tokens) of rubric, notes and examples beyond which more text dilutes attention."""
    described_gain: float = 0.6
    """`attention` rises by this share for a kind of error that the rubric fully describes."""
    shown_gain: float = 0.3
    """The same for a kind that an example shows."""
    plan_gain: float = 0.15
    """The same for plan quality and plan adherence where an extracted plan is given."""
    aim: float = 0.68
    """Probability of naming the root cause rather than the symptom, where these are two spans; next to each other, half
    of what is missing to 1 is added."""
    notes_aim: float = 0.28
    """Added to it by notes that say how planner and executor work."""
    template_aim: float = 0.08
    """Added to it by a template that asks for the span where the error first appears."""
    slip: float = 0.02
    """Probability of naming a neighbour of the right span."""
    leak: float = 0.02
    """Probability of reporting a noticed error of another dimension as one of its own."""
    echo: float = 0.0
    """Probability of reporting a noticed error a second time, at another span."""
    alarm_rate: float = 0.0025
    """False alarms per step and judge, before notes, examples or clauses calm them."""
    clause_calm: float = 0.15
    """What is left of a theme of false alarms when the rubric says that it is no error."""
    notes_calm: float = 0.6
    """What is left of all false alarms when notes say how the agent works; clean examples do the same."""
    no_exclusions: float = 7.0
    """False alarms rise by this factor where the prompt has no `Do not judge` list."""
    alarm_severity: tuple[float, float, float] = (0.55, 0.3, 0.15)
    """Probabilities of low, medium and high severity of a false alarm."""
    severity_noise: float = 0.1
    """Probability that the severity of a true finding is one step off."""
    score_noise: float = 0.02
    """Probability that the score is one step off what its own findings say."""
    plan_error: float = 0.02
    """Probability that an extracted plan lacks its last line."""
    reflection_error: float = 0.15
    """Probability that a reflection makes the text no better, or worse."""
    malformed_rate: float = 0.0
    """Probability of a reply that is cut off in the middle."""


PROFILES: dict[str, Profile] = {
    # The published shape: a judge per dimension misses little, one prompt for all of them misses half.
    "forgetful": Profile(),
    # What a strong model was seen to do with generic prompts: it finds nearly all, and much that nobody labelled.
    "overzealous": Profile(
        skill=6.0,
        no_exclusions=2.0,
        alarm_rate=0.06,
        echo=0.25,
        leak=0.15,
        alarm_severity=(0.35, 0.4, 0.25),
        severity_noise=0.2,
        reflection_error=0.1,
    ),
    # A share of both faults, with more to gain from good texts.
    "default": Profile(
        skill=0.95,
        holistic_focus=0.4,
        described_gain=2.6,
        aim=0.62,
        notes_aim=0.25,
        template_aim=0.15,
        alarm_rate=0.018,
        no_exclusions=3.0,
        alarm_severity=(0.5, 0.3, 0.2),
        reflection_error=0.2,
    ),
}


def profile_of(model: str) -> Profile:
    """The profile of a model name such as `simulated/default`.

    Raises:
        JudgeError: no such profile; the message lists them.
    """
    name = model.removeprefix(PREFIX)
    if not model.startswith(PREFIX) or name not in PROFILES:
        accepted = ", ".join(PREFIX + name for name in PROFILES)
        raise JudgeError(f"there is no simulated model {model!r}: accepted are {accepted}")
    return PROFILES[name]
