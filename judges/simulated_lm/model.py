"""`SimulatedLM`: a language model that is none. It sees an LMRequest and nothing else."""

from __future__ import annotations

import json
import random
from functools import lru_cache

from judges.lm import LMReply, LMRequest
from judges.prompt import mlflow_reply
from judges.render import estimate_tokens
from judges.simulated_lm.judging import Reader
from judges.simulated_lm.profiles import Profile, profile_of
from judges.simulated_lm.proposing import propose
from judges.simulated_lm.reading import FieldPrompt, JudgePrompt, PlanPrompt, Prompt, ReflectionPrompt, read_prompt
from judges.simulated_lm.reflection import reflect
from judges.simulated_lm.sight import Sight, read_trace
from judges.simulated_lm.traits import read_traits
from labeled_traces.trace import text_hash

HELP = (
    "This is the simulated model of gpa-judges, not a language model: its answers say nothing of any real one. It "
    "answers judge prompts, plan extraction, reflection prompts and prompts of MIPROv2 that gpa-judges sends, and "
    "nothing else."
)
MAX_PLANS, MAX_PLAN = 5, 1_500
"""Limits of the plan extraction's reply."""


class SimulatedLM:
    """Answers as `simulated/<profile>`; see `profiles` for what the profiles are.

    An equal request gets an equal reply. At temperature 0 the repeat index and the seed change nothing; above it
    they, like any other change of the prompt, roll the dice anew. Cost is 0 dollars; tokens are estimates.
    """

    def __init__(self, profiles: dict[str, Profile] | None = None) -> None:
        self._profiles = profiles or {}
        self._read_trace = lru_cache(maxsize=512)(read_trace)
        self._read_traits = lru_cache(maxsize=1024)(read_traits)

    async def complete(self, request: LMRequest) -> LMReply:
        """One reply, `finish_reason` `length` where it does not fit into `max_tokens`.

        Raises:
            JudgeError: there is no such profile.
        """
        profile = self._profiles.get(request.model) or profile_of(request.model)
        said = {message.role: message.content for message in request.messages}
        prompt = read_prompt(said.get("user", ""), said.get("system", ""))
        text = self._answer(prompt, profile, dice(request))
        tokens = estimate_tokens(text)
        finish = "stop"
        if tokens > request.max_tokens:
            text, tokens, finish = text[: request.max_tokens * 3], request.max_tokens, "length"
        sent = sum(estimate_tokens(message.content) for message in request.messages)
        return LMReply(text, finish_reason=finish, prompt_tokens=sent, completion_tokens=tokens, cost=0.0)

    def _answer(self, prompt: Prompt | None, profile: Profile, luck: random.Random) -> str:
        if isinstance(prompt, JudgePrompt):
            traits = self._read_traits(prompt.texts)
            reply = Reader(profile, prompt.texts, traits, self._read_trace(prompt.trace_text), luck).reply()
            if prompt.in_mlflow:
                reply = json.dumps(mlflow_reply(**json.loads(reply)))
            return reply[: len(reply) // 2] if luck.random() < profile.malformed_rate else reply
        if isinstance(prompt, PlanPrompt):
            return _extract_plan(self._read_trace(prompt.trace_text), profile, luck)
        if isinstance(prompt, ReflectionPrompt):
            return reflect(prompt, profile.reflection_error, luck)
        if isinstance(prompt, FieldPrompt):
            return propose(prompt, profile.reflection_error, luck) or HELP
        return HELP


def dice(request: LMRequest) -> random.Random:
    """Seeded by what a model would see and by what makes its sampling differ; not by limits on the reply."""
    sampling = [request.temperature, request.repeat, request.seed] if request.temperature > 0 else []
    messages = [[message.role, message.content] for message in request.messages]
    return random.Random(text_hash(json.dumps([request.model, messages, sampling])))


def _extract_plan(sight: Sight, profile: Profile, luck: random.Random) -> str:
    plans = list(sight.plans)
    if plans and luck.random() < profile.plan_error:
        span_id, text = plans[-1]
        plans[-1] = (span_id, text.rstrip().rpartition("\n")[0] or text)
    rows = [{"span_id": span_id, "text": text[:MAX_PLAN]} for span_id, text in plans[:MAX_PLANS]]
    return json.dumps({"source": sight.plan_source, "plans": rows})
