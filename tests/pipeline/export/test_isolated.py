"""The proof: a clean Python that has MLflow and none of our code sends, byte for byte, what our own judges send."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from judges.judge import judge
from judges.judgment import Judgment, Outcome
from judges.mlflow_layout import judge_inputs
from judges.models.client import ModelClient
from judges.program import JudgeSuite
from judges.prompt import mlflow_reply
from judges.render import render
from judges.reply import parse_mlflow_reply
from labeled_traces.label import DIMENSIONS
from labeled_traces.trace import Trace
from pipeline.export.exported import Provenance
from pipeline.export.registry import Registry

if TYPE_CHECKING:
    from tests.judges.scripted_server import ScriptedServer

FINDING = {"span_ids": ["a1"], "explanation": 'A "{bad}" é.', "evidence": "", "severity": "high", "confidence": 90}
REPLY = json.dumps(mlflow_reply("Looked at it.", [FINDING], 0))

ISOLATED = """\
import json, sys

class NoneOfOurs:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("judges", "pipeline", "labeled_traces"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, NoneOfOurs())
for name in ("judges", "pipeline", "labeled_traces"):
    try:
        __import__(name)
        sys.exit(f"{name} can be imported")
    except ImportError:
        pass

import mlflow
from mlflow.genai.scorers import get_scorer

job = json.load(sys.stdin)
mlflow.set_tracking_uri(job["uri"])
feedback = {}
for name in job["prompts"]:
    prompt = mlflow.genai.load_prompt(f"prompts:/{name}@{job['alias']}", cache_ttl_seconds=0)
    scorer = get_scorer(
        name=prompt.tags["scorer"],
        experiment_id=prompt.tags["experiment_id"],
        version=int(prompt.tags["scorer_version"]),
    )
    assert scorer.instructions == prompt.template
    found = scorer(inputs=job["inputs"])
    feedback[prompt.tags["dimension"]] = [found.value, found.rationale, found.source.source_type]
json.dump(feedback, sys.stdout)
"""


@pytest.fixture(scope="module")
def proof(
    scripted_server: type[ScriptedServer],
    mlflow_server: str,
    nasty_suite: JudgeSuite,
    nasty_trace: Trace,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """Both sides' requests and answers, dimension by dimension."""
    with scripted_server(lambda _: REPLY) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "test")
        programs = {
            name: program.with_knobs(endpoint=server.endpoint) for name, program in nasty_suite.programs.items()
        }
        registry = Registry(mlflow_server, "isolated", "iso.", create=True)
        exported = registry.register(replace(nasty_suite, programs=programs), Provenance("a-run"))
        trace_text = render(nasty_trace, 24_000)
        job = {
            "uri": mlflow_server,
            "alias": "challenger",
            "prompts": [found.prompt for found in exported.values()],
            "inputs": judge_inputs(trace_text),
        }
        ran = subprocess.run(
            [sys.executable, "-I", "-c", ISOLATED],
            input=json.dumps(job),
            env={**os.environ, "OPENAI_API_BASE": server.endpoint},
            cwd=tmp_path_factory.mktemp("elsewhere"),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        theirs, count = server.bodies, len(server.bodies)
        client = ModelClient(timeout=20)
        judgments = {
            name: asyncio.run(judge(found.program, nasty_trace, client, 0, seed=5)) for name, found in exported.items()
        }
        client.close()
        return {
            "feedback": json.loads(ran.stdout),
            "theirs": dict(zip(exported, theirs, strict=True)),
            "ours": dict(zip(exported, server.bodies[count:], strict=True)),
            "judgments": judgments,
        }


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_the_request_is_ours_byte_for_byte(proof: dict[str, Any], dimension: str) -> None:
    theirs, ours = proof["theirs"][dimension], proof["ours"][dimension]
    assert [message["content"] for message in theirs["messages"]] == [
        message["content"] for message in ours["messages"]
    ]
    # In the order of their keys too: a model sees it.
    assert json.dumps(theirs["response_format"]) == json.dumps(ours["response_format"])
    assert json.dumps(theirs, sort_keys=True) == json.dumps(ours, sort_keys=True)


def test_the_requests_are_what_they_should_be(proof: dict[str, Any]) -> None:
    for dimension, body in proof["theirs"].items():
        limit, temperature = ("max_tokens", {"temperature": 0.3})
        if dimension == "tool_calling":
            limit, temperature = "max_completion_tokens", {}
        assert body.keys() == {"model", "messages", "response_format", limit, *temperature}
        assert (body[limit], body.get("temperature")) == (777, temperature.get("temperature"))
        assert f"# Task\n\nJudge: {dimension}\n" in body["messages"][0]["content"]
    systems = {body["messages"][0]["content"] for body in proof["theirs"].values()}
    assert len(systems) == len(DIMENSIONS)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_both_read_the_same_verdict(proof: dict[str, Any], dimension: str, nasty_trace: Trace) -> None:
    value, rationale, source = proof["feedback"][dimension]
    judgment: Judgment = proof["judgments"][dimension]
    assert (judgment.outcome, judgment.score, len(judgment.findings)) == (Outcome.SCORED, 0, 1)
    assert (value, source) == ("0", "LLM_JUDGE")
    text = json.dumps({"rationale": rationale, "result": value})
    read = parse_mlflow_reply(text, "stop", dimension, [span.span_id for span in nasty_trace.spans])
    assert (read.score, read.findings, read.rationale) == (judgment.score, judgment.findings, judgment.rationale)


def test_our_code_is_out_of_reach_there(tmp_path: Path) -> None:
    """The script's own check must be able to fail."""
    (tmp_path / "judges.py").touch()
    leaky = ISOLATED.replace("sys.meta_path.insert(0, NoneOfOurs())", "sys.path.insert(0, '.')")
    ran = subprocess.run([sys.executable, "-I", "-c", leaky], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "judges can be imported\n")
