"""What the simulated model makes of the prompts with which MIPROv2 (DSPy) comes to new instructions."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable

from judges.simulated_lm.reading import FieldPrompt, ReflectionPrompt
from judges.simulated_lm.reflection import new_text

REPORTED = "Problems that are reported:"
"""Begins what it says of a data set; behind it stand categories and how often they were seen."""
_EXPLAINED = re.compile(r"""['"]explanation['"]: ['"]([\w -]{3,40}):""")
_COUNTED = re.compile(r"([\w-][\w -]{2,40}) \((\d+)\)")


def propose(prompt: FieldPrompt, reflection_error: float, luck: random.Random) -> str | None:
    """The reply; None to a prompt for anything but observations, a summary of them, or an instruction.

    An instruction is a rubric that describes what the examples and the summary report. Neither says what a judge got
    wrong, so neither false alarms nor misplaced findings can be answered.
    """
    seen = _reported(text for name, text in prompt.inputs.items() if name != "prior_observations")
    if prompt.wanted in ("observations", "summary"):
        counted = ", ".join(f"{category} ({count})" for category, count in seen.most_common())
        text = f"(simulated) Excerpts of traces with what people found in them. {REPORTED} {counted or 'none'}."
    elif prompt.wanted == "proposed_instruction":
        lines = tuple(f"- missed: category={category}" for category in seen.elements())
        reflection = ReflectionPrompt("rubric", "", prompt.inputs.get("basic_instruction", ""), lines)
        text = new_text(reflection, reflection_error, luck)
    else:
        return None
    return f"[[ ## {prompt.wanted} ## ]]\n{text}\n\n[[ ## completed ## ]]"


def _reported(texts: Iterable[str]) -> Counter[str]:
    """Category -> how often the texts report it, in examples or in what was observed of them."""
    seen: Counter[str] = Counter()
    for text in texts:
        seen.update(_EXPLAINED.findall(text))
        for line in re.findall(rf"{REPORTED}([^.]*)", text):
            seen.update({category.strip(): int(count) for category, count in _COUNTED.findall(line)})
    return seen
