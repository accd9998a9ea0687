"""Thousands of judgments from an endpoint of which nearly every third reply is faulty: nothing is lost or made up."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from judges.judgment import Outcome
from judges.ledger.budget import Budget, Price
from judges.ledger.ledger_lm import Ledger, LedgerLM
from judges.lm import LMError, LMReply, LMRequest, ProviderDown
from judges.models.client import ModelClient
from judges.models.direct_transport import DirectTransport
from judges.program import seed_suite
from labeled_traces.simulated import simulate
from pipeline.evaluate import EvaluateSettings, evaluate
from pipeline.prepare import with_knobs

if TYPE_CHECKING:
    from judges.models.transport import Transport
    from tests.judges.conftest import NewClient
    from tests.judges.models.faulty_server import FaultyServer
    from tests.judges.scripted_server import ScriptedServer

DIMENSIONS = ("goal_fulfillment", "logical_consistency", "execution_efficiency", "tool_selection", "tool_calling")
"""Those whose judgment is one call."""
PRICE = Price(input=2.0, output=10.0)


@pytest.mark.usefixtures("key")
def test_every_call_ends_in_a_named_outcome_and_is_charged_by_the_rule(
    tmp_path: Path, new_client: NewClient, way: Transport, faulty_server: type[FaultyServer]
) -> None:
    direct = isinstance(way, DirectTransport)
    # LiteLLM takes ten times as long for a call: fewer at once, else all are late.
    traces, at_once = (100, 64) if direct else (20, 16)
    with faulty_server(seed=0, share=0.3) as server:
        client = new_client(timeout=3.0, pause=0.005, prices={"openai/judge": PRICE})
        suite = with_knobs(seed_suite(dimensions=DIMENSIONS), {"model": "openai/judge", "endpoint": server.endpoint})
        with LedgerLM(client, Ledger(tmp_path / "l"), "run", Budget(dollars=1e6), cost_of=client.cost_of) as lm:
            settings = EvaluateSettings(repeats=4, concurrency=at_once)
            judgments = evaluate(suite, simulate(traces, seed=0), lm, settings)
            spent, kept = lm.spent(), lm.kept()
    served = server.served
    faults = Counter(one.fault for one in served)
    assert faults.keys() == {"fine", *server.faults}, "each fault was met"
    assert 0.25 < 1 - faults["fine"] / len(served) < 0.35

    outcomes = Counter(judgment.outcome for judgment in judgments)
    replied = server.replied - (set() if direct else {"usage in words"})
    scored = [one for one in served if one.fault in server.scored & replied]
    assert len(judgments) == outcomes.total() == traces * 20
    assert outcomes[Outcome.NOT_RUN] == 0
    assert Counter(judgment.score for judgment in judgments if judgment.outcome == Outcome.SCORED) == Counter(
        one.score for one in scored
    )
    assert all(judgment.score is None for judgment in judgments if judgment.outcome != Outcome.SCORED)
    assert outcomes[Outcome.REFUSED] == faults["refusal"]
    assert outcomes[Outcome.TIMEOUT] == faults["hang"]
    assert outcomes[Outcome.UNPARSEABLE] == faults["empty"] + faults["null"]
    # Each of these calls was cut once, and asked for again with more room.
    assert outcomes[Outcome.TRUNCATED] <= faults["all was reasoning"] // 2

    charged = [one.charged for one in served]
    assert kept == sum(one.fault in replied for one in served)
    assert spent.calls == len(served)
    assert spent.tokens == sum(prompt + completion for prompt, completion in charged)
    assert spent.cost == pytest.approx(sum(PRICE.cost(*tokens) for tokens in charged), abs=1e-9)
    assert not spent.unpriced


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("answers", [0, 150])
def test_a_provider_that_dies_does_not_cost_all_in_flight_all_of_their_attempts(
    tmp_path: Path, scripted_server: type[ScriptedServer], answers: int
) -> None:
    """128 in flight, of which each would be sent five times."""
    left = iter(range(answers))
    down = scripted_server.error(500, "boom")
    client = ModelClient(timeout=5.0, pause=0.02)
    slots = asyncio.Semaphore(128)

    async def call(lm: LedgerLM, request: LMRequest) -> LMReply | BaseException:
        async with slots:
            try:
                return await lm.complete(request)
            except (LMError, ProviderDown) as error:
                return error

    async def calls(lm: LedgerLM, server: ScriptedServer) -> list[LMReply | BaseException]:
        return list(await asyncio.gather(*(call(lm, server.request(repeat=number)) for number in range(400))))

    with (
        scripted_server(lambda _: "fine" if next(left, None) is not None else down) as server,
        LedgerLM(client, Ledger(tmp_path / "l"), "run") as lm,
    ):
        ends = asyncio.run(calls(lm, server))
        assert sum(isinstance(end, LMReply) for end in ends) == answers == lm.kept()
        assert sum(isinstance(end, ProviderDown) for end in ends) > 100
        said = next(str(end) for end in ends if isinstance(end, ProviderDown))
        assert re.search(r"^\d+ calls [a-z, ]*failed.* \(\d\d+ requests, retries included\); the last one", said)
        assert len(server.requests) - answers < 128 * 2.5
        assert lm.spent().calls == len(server.requests)
