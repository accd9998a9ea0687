"""A small world with a known truth: traces that say BAD hold one error, and a model whose skill a test writes down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from judges.lm import LM, LMReply, LMRequest
from judges.program import JudgeProgram, Knobs, seed_program
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.split import Development
from labeled_traces.trace import Span, SpanKind, Trace
from pipeline.evaluate import EvaluateSettings
from pipeline.matching import SpanMatcher
from pipeline.optimizers.base import SearchContext

DIMENSION = "tool_calling"
LESSON = "Look for values that are marked as BAD."


def make_row(number: int, bad: bool, part: str = "train") -> LabeledTrace:
    name = f"{part}-{number}"
    said = f"{'BAD' if bad else 'good'} figure {number} of {part}"
    spans = (
        Span(f"{name}/root", None, "agent", SpanKind.AGENT, inputs=f"Find figure {number}", outputs=said),
        Span(
            f"{name}/plan",
            f"{name}/root",
            "planner",
            SpanKind.LLM,
            inputs={
                "messages": [{"role": "system", "content": "Plan."}, {"role": "user", "content": f"Task {number}"}],
                "tools": [{"type": "function", "function": {"name": "db_lookup"}}, {"name": "calculator"}],
            },
            outputs={"messages": [{"role": "assistant", "content": f"1. look up figure {number} for {part}"}]},
        ),
        Span(f"{name}/tool", f"{name}/root", "db_lookup", SpanKind.TOOL, inputs={"n": number}, outputs=said),
    )
    label = ErrorLabel(
        f"{name}/tool",
        (DIMENSION,),
        "wrong_argument",
        Impact.HIGH,
        f"the lookup of {name}/tool asked for another",
        said,
    )
    return LabeledTrace(Trace(name, spans), (label,) if bad else (), group=f"task {name}")


@dataclass
class FakeLM:
    """`finds`: judge's own texts -> probability of reporting a BAD value; `alarms`: of reporting the planner.

    `reflects`: part, prompt -> reply; `proposes`: field that is wanted, prompt of dspy -> reply. `replies`: judge's own
    texts, reply -> the reply to give instead. `fails`: number of requests so far -> what to raise. Equal requests get
    equal replies.
    """

    finds: Callable[[str], float] = lambda tail: 0.95 if LESSON in tail else 0.3
    alarms: Callable[[str], float] = lambda _: 0.1
    reflects: Callable[[str, str], str] = lambda part, prompt: better(part, prompt)
    proposes: Callable[[str, str], str] = lambda wanted, prompt: better_instruction(wanted, prompt)
    replies: Callable[[str, str], str] = lambda _, reply: reply
    fails: Callable[[int], BaseException | None] = lambda _: None
    judged: list[LMRequest] = field(default_factory=list)
    reflected: list[LMRequest] = field(default_factory=list)

    async def complete(self, request: LMRequest) -> LMReply:
        error = self.fails(len(self.judged) + len(self.reflected))
        if error is not None:
            raise error
        prompt = request.messages[-1].content
        if prompt.startswith("# Improve a judge"):
            self.reflected.append(request)
            part = re.search(r"^Part: (\w+)", prompt, re.MULTILINE)
            assert part is not None
            return LMReply(self.reflects(part[1], prompt), cost=0.0)
        if prompt.startswith("[[ ## "):
            self.reflected.append(request)
            wanted = re.search(r"starting with the field `\[\[ ## (\w+) ## \]\]`", prompt)
            assert wanted is not None
            return LMReply(self.proposes(wanted[1], prompt), cost=0.0)
        self.judged.append(request)
        _, trace, tail = prompt.split("===== TRACE")
        findings = []
        luck = [int(request.key[i : i + 8], 16) / 2**32 for i in (0, 8)]
        if "BAD" in trace and luck[0] < self.finds(tail):
            findings.append(self._finding(trace, "TOOL"))
        if luck[1] < self.alarms(tail):
            findings.append(self._finding(trace, "LLM"))
        reply = json.dumps({"rationale": "read", "findings": findings, "score": 0 if findings else 3})
        return LMReply(self.replies(tail, reply), cost=0.0)

    @staticmethod
    def _finding(trace: str, kind: str) -> dict[str, object]:
        span = re.search(rf"^@span (\S+) kind={kind}", trace, re.MULTILINE)
        assert span is not None
        text = "the plan is terse" if kind == "LLM" else "the value is off"
        return {"span_ids": [span[1]], "explanation": text, "evidence": "", "severity": "high", "confidence": 90}


def current_text(prompt: str) -> str:
    found = re.search(r"^<<<\n(.*?)\n>>>", prompt, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def better(part: str, prompt: str) -> str:
    """The lesson goes into the rubric, once; the other parts stay as they are."""
    text = current_text(prompt)
    return f"<<<\n{LESSON}\n{text}\n>>>" if part == "rubric" and LESSON not in text else f"<<<\n{text}\n>>>"


def better_instruction(wanted: str, prompt: str) -> str:
    """The lesson goes above the basic instruction; to any other prompt of dspy, a remark."""
    basic = re.search(
        r"^\[\[ ## basic_instruction ## \]\]\n(.*?)\n\n(?:\[\[|Respond)", prompt, re.MULTILINE | re.DOTALL
    )
    text = f"{LESSON}\n{basic[1]}" if basic and wanted == "proposed_instruction" else "Traces of an agent."
    return f"[[ ## {wanted} ## ]]\n{text}\n\n[[ ## completed ## ]]"


@dataclass(frozen=True)
class World:
    """The development split, and how to search it."""

    development: Development
    program: JudgeProgram

    def context(
        self,
        lm: LM,
        seed: int = 0,
        concurrency: int = 4,
        locked: frozenset[str] = frozenset(),
        bank: tuple[JudgeProgram, ...] = (),
    ) -> SearchContext:
        settings = EvaluateSettings(concurrency=concurrency, seed=seed)
        return SearchContext(lm=lm, matcher=SpanMatcher(), evaluate=settings, seed=seed, locked=locked, bank=bank)


def make_world(traces: int = 24) -> World:
    parts = [Dataset(make_row(i, i % 2 == 0, part) for i in range(traces)) for part in ("train", "val")]
    return World(Development(*parts), seed_program(DIMENSION, Knobs(model="fake/judge")))


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def fake_lm() -> type[FakeLM]:
    return FakeLM
