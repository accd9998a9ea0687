"""One reading of one trace by one judge: render, extract the plan, ask, parse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from judges.final_object import final_object
from judges.judgment import Judgment, Outcome
from judges.ledger.ledger_lm import NotInLedger
from judges.lm import LM, LMError, LMReply, LMRequest
from judges.mlflow_layout import build_messages as mlflow_messages
from judges.mlflow_layout import response_schema
from judges.plan import ExtractedPlan, parse_plan, plan_request, wants_plan
from judges.program import MLFLOW, JudgeProgram
from judges.prompt import build_messages, reply_schema
from judges.render import Rendering, estimate_tokens, render
from judges.reply import CUT, ParsedReply, parse_mlflow_reply, parse_reply
from labeled_traces.trace import Trace, text_hash


async def judge(
    program: JudgeProgram, trace: Trace, lm: LM, repeat: int, seed: int | None = None, alone: bool = False
) -> Judgment:
    """What the judge says, or the outcome that tells why it says nothing.

    A reply that was cut is asked for once more with `max_tokens` doubled (not in the layout `mlflow`: a judge that is
    registered there is one call). `seed` and `repeat` together seed the calls, so repeats differ and a run can be
    repeated. Tokens and cost are those of all calls that stand behind the judgment, whether they were made now or
    replayed. `alone`: no other call reads this trace, so none of its prompt is worth a place in a cache that is paid.

    Raises:
        BudgetExhausted, ProviderDown: a call was not sent.
        NotInLedger: a replay was asked for a call that it does not hold.
    """
    rendering = _rendered(_Identity(trace), program.knobs.trace_tokens)
    replies: list[LMReply] = []
    in_mlflow = program.knobs.layout == MLFLOW
    try:
        parsed = await _ask(program, rendering, _Caller(lm, replies, not in_mlflow, alone), repeat, seed)
    except NotInLedger:
        raise
    except LMError as error:
        outcome = Outcome(error.kind) if error.kind in set(Outcome) else Outcome.PROVIDER_ERROR
        parsed = ParsedReply(outcome, detail=str(error))
    costs = [reply.cost for reply in replies]
    return Judgment(
        trace_id=trace.trace_id,
        dimension=program.dimension,
        program=program.hash,
        repeat=repeat,
        outcome=parsed.outcome,
        score=parsed.score,
        findings=parsed.findings,
        rationale=parsed.rationale,
        detail=parsed.detail,
        prompt_tokens=sum(reply.prompt_tokens for reply in replies),
        completion_tokens=sum(reply.completion_tokens for reply in replies),
        cached_tokens=sum(reply.cached_tokens for reply in replies),
        cost=_total(costs),
        cut=rendering.cut,
        warnings=parsed.warnings,
    )


async def find_plan(program: JudgeProgram, trace: Trace, lm: LM, seed: int | None = None) -> ExtractedPlan | None:
    """The plan alone, by the call that the judges of a program with this model share; None: the reply is of no use.

    Raises: as `LM.complete`.
    """
    rendering = _rendered(_Identity(trace), program.knobs.trace_tokens)
    found = await _Caller(lm, [], True, False).complete(plan_request(program, rendering, _call_seed(seed, 0)))
    return parse_plan(found.text, rendering.span_ids)


def estimate_call(program: JudgeProgram, trace: Trace) -> tuple[int, int]:
    """Prompt tokens (about) and most completion tokens of one judgment.

    Its plan extraction (`estimate_plan`) is included, though the judges and repeats of a trace share one; the extracted
    plan itself, which is not known yet, is not.
    """
    request = judge_request(program, _rendered(_Identity(trace), program.knobs.trace_tokens), None, 0, None)
    prompt, completion = _most(request)
    plan_prompt, plan_completion = estimate_plan(program, trace)
    return prompt + plan_prompt, completion + plan_completion


def estimate_plan(program: JudgeProgram, trace: Trace) -> tuple[int, int]:
    """The same of the plan extraction alone; zeros for a judge that is shown no plan."""
    if not wants_plan(program):
        return 0, 0
    return _most(plan_request(program, _rendered(_Identity(trace), program.knobs.trace_tokens)))


def _most(request: LMRequest) -> tuple[int, int]:
    return sum(estimate_tokens(message.content) for message in request.messages), request.max_tokens


def judge_request(
    program: JudgeProgram, rendering: Rendering, plan: str | None, repeat: int, seed: int | None
) -> LMRequest:
    """The judge's call; `plan` is an extracted plan to show. A judge in MLflow shows none and sends no seed."""
    knobs = program.knobs
    in_mlflow = knobs.layout == MLFLOW
    return LMRequest(
        model=knobs.model,
        messages=mlflow_messages(program, rendering) if in_mlflow else build_messages(program, rendering, plan),
        temperature=knobs.temperature,
        max_tokens=knobs.max_tokens,
        schema=response_schema(program.dimension) if in_mlflow else reply_schema(program.dimension, rendering.span_ids),
        endpoint=knobs.endpoint,
        seed=None if in_mlflow else _call_seed(seed, repeat),
        repeat=repeat,
    )


@dataclass(frozen=True)
class _Caller:
    """Asks, and keeps each reply in `replies`. `again`: asks once more where a reply was cut."""

    lm: LM
    replies: list[LMReply]
    again: bool
    alone: bool

    async def complete(self, request: LMRequest) -> LMReply:
        if self.alone:
            request = replace(request, messages=tuple(replace(message, shared=0) for message in request.messages))
        reply = await self.lm.complete(request)
        self.replies.append(reply)
        form = (request.schema or {}).get("required", ())
        if self.again and reply.finish_reason in CUT and final_object(reply.text or "", form, cut=True)[0] is None:
            reply = await self.lm.complete(replace(request, max_tokens=request.max_tokens * 2))
            self.replies.append(reply)
        return reply


async def _ask(
    program: JudgeProgram, rendering: Rendering, caller: _Caller, repeat: int, seed: int | None
) -> ParsedReply:
    if not rendering.span_ids:
        limit = program.knobs.trace_tokens
        return ParsedReply(
            Outcome.TOO_LONG, detail=f"not one span fits into the limit of {limit} tokens (trace_tokens)"
        )
    plan, warnings = None, []
    if wants_plan(program):
        found = await caller.complete(plan_request(program, rendering, _call_seed(seed, 0)))
        extracted = parse_plan(found.text, rendering.span_ids)
        if extracted is None:
            warnings.append("the plan extraction's reply cannot be used: judged without an extracted plan")
        elif extracted.source == "none":
            return ParsedReply(Outcome.NOT_APPLICABLE, detail="no plan was found in the trace")
        else:
            plan = extracted.text
    reply = await caller.complete(judge_request(program, rendering, plan, repeat, seed))
    read = parse_mlflow_reply if program.knobs.layout == MLFLOW else parse_reply
    parsed = read(reply.text, reply.finish_reason, program.dimension, rendering.span_ids)
    return replace(parsed, warnings=(*warnings, *parsed.warnings))


def _call_seed(seed: int | None, repeat: int) -> int | None:
    """One seed for all repeats would make them equal; neighbouring seeds of two runs would share calls."""
    return None if seed is None else int(text_hash(f"{seed} {repeat}")[:7], 16)


def _total(costs: Sequence[float | None]) -> float | None:
    return None if not costs or None in costs else sum(cost for cost in costs if cost is not None)


class _Identity:
    """A trace as a cache key: traces hold dictionaries, so they have no hash of their own."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.trace is other.trace

    def __hash__(self) -> int:
        return id(self.trace)


@lru_cache(maxsize=512)
def _rendered(identity: _Identity, token_limit: int) -> Rendering:
    """All judges of a trace read one rendering. As many are kept as an evaluation has begun at once, if it reads some
    200 in parallel."""
    return render(identity.trace, token_limit)
