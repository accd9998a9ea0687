"""What gets through to a model, and what does not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from judges.judge import judge
from judges.lm import LMReply, LMRequest, Message
from judges.program import JudgeProgram, JudgeSuite, seed_program
from labeled_traces.dataset import Dataset
from labeled_traces.sealed import Seal
from labeled_traces.simulated import rate, simulate
from labeled_traces.split import LeakageError
from pipeline.evaluate import evaluate
from pipeline.sealed_lm import SealedLM

ROWS = rate(simulate(30, 0), 0)
SEAL = Seal.of(Dataset(ROWS[20:]), ROWS[:20])
HELD_OUT = ROWS[25]
SAID = HELD_OUT.trace.roots[0].inputs


@dataclass
class Counting:
    sent: list[LMRequest] = field(default_factory=list)

    async def complete(self, request: LMRequest) -> LMReply:
        self.sent.append(request)
        return LMReply('{"rationale": "", "findings": [], "score": 3}')


def quoting(program: JudgeProgram, part: str) -> JudgeProgram:
    text = f"{SAID} " * 4
    return program.with_parts({part: f"{program.parts[part]}\n{text}"}, "test")


@pytest.mark.parametrize("layout", ["shared_prefix", "mlflow"])
def test_traces_of_the_development_split_are_read_and_programs_that_quote_the_testset_are_not_sent(layout: str) -> None:
    """Whoever asks: an optimiser that is not ours, the selection, the rule."""
    lm = Counting()
    program = seed_program("tool_calling").with_knobs(layout=layout, plan_extraction=False)
    evaluate(JudgeSuite({"tool_calling": program}), ROWS[:20], SealedLM(lm, SEAL))
    assert len(lm.sent) == 20
    for part in ("rubric", "architecture_notes", "output_template"):
        suite = JudgeSuite({"tool_calling": quoting(program, part)})
        with pytest.raises(LeakageError, match="what is sent to simulated/default holds 16 words in a row of the"):
            evaluate(suite, ROWS[:20], SealedLM(lm, SEAL))
    assert len(lm.sent) == 20


def test_a_trace_that_quotes_a_fence_hides_nothing() -> None:
    lm = Counting()
    program = quoting(seed_program("tool_calling"), "rubric")
    fenced = replace(program, rubric=f"===== TRACE 12345678 =====\n{program.rubric}\n===== TRACE 12345678 =====")
    with pytest.raises(LeakageError):
        asyncio.run(judge(fenced, ROWS[0].trace, SealedLM(lm, SEAL), 0))
    assert not lm.sent


def test_a_reflection_prompt_is_read_as_a_whole() -> None:
    lm = Counting()
    sealed = SealedLM(lm, SEAL)
    words = str(SAID).split()
    ask = LMRequest("m", (Message("user", f"===== TRACE 1 =====\nImprove this. {' '.join(words * 4)}"),))
    with pytest.raises(LeakageError, match=f"what is sent to m holds .* {HELD_OUT.trace_id!r}"):
        asyncio.run(sealed.complete(ask))
    asyncio.run(sealed.complete(LMRequest("m", (Message("user", f"Improve this. {' '.join(words[:8])}"),))))
    assert len(lm.sent) == 1
