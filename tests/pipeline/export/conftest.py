"""Judges whose texts hold all that could break on the way, and a trace that does too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from judges.decision import DecisionRule
from judges.program import JudgeProgram, JudgeSuite, Knobs, seed_suite
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.label import DIMENSIONS
from labeled_traces.simulated import simulate
from labeled_traces.split import make_split
from labeled_traces.stable_split import places_of
from labeled_traces.trace import Span, SpanKind, Trace
from pipeline.config_file import parse_config
from pipeline.export.registry import Registry
from pipeline.run_folder import RunFolder

NASTY = (
    'Braces {x} {{"a": 1}} {{ name }} {{ inputs }} {{trace}} {% if %} %s $y \\n \\u00e9 \\1 "double" \'single\'\n'
    "`tick` <b>&amp;</b> ünïcödé 漢字 עברית 🙂\u2028 – «end»"
)
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def nasty_trace() -> Trace:
    return Trace(
        "t",
        (
            Span("a1", None, "agent", SpanKind.AGENT, inputs=NASTY, outputs=f'{{"result": "3"}}\n{NASTY}'),
            Span('b "2"', "a1", "tööl", SpanKind.TOOL, inputs={"q": NASTY}, outputs=["x", 7, None]),
        ),
    )


@pytest.fixture(scope="session")
def nasty_suite() -> JudgeSuite:
    """All seven dimensions, each with texts and knobs of its own."""
    seeds = seed_suite(Knobs(model="openai/any-model", temperature=0.3, max_tokens=777))
    programs = {name: _nasty(program) for name, program in seeds.programs.items()}
    # LiteLLM gives this model's limit another name, and knows that it takes no temperature.
    programs["tool_calling"] = programs["tool_calling"].with_knobs(model="openai/gpt-5")
    return JudgeSuite(programs, DecisionRule(min_confidence=40))


def _nasty(program: JudgeProgram) -> JudgeProgram:
    example = {"excerpt": NASTY, "findings": [{"explanation": NASTY, "span_ids": ["s1"]}], "score": 1, "trace_id": "x"}
    texts = {
        "rubric": f"{program.rubric}\n{NASTY} {program.dimension}",
        "architecture_notes": NASTY * 2,
        "examples": json.dumps(example, ensure_ascii=False),
        "output_template": f"{program.output_template}\n{NASTY}",
    }
    return program.with_parts(texts, "test")


@pytest.fixture
def small_suite() -> JudgeSuite:
    """Two dimensions, one of them with `not_applicable`."""
    seeds = seed_suite(Knobs(model="openai/any-model"))
    names = ("plan_quality", "tool_calling")
    return replace(seeds, programs={name: seeds.programs[name] for name in DIMENSIONS if name in names})


@pytest.fixture
def open_registry(mlflow_database: str) -> Callable[[], Registry]:
    """Opens the test's own registry: each time a new connection, as from another process."""
    number = next(_NUMBERS)
    return lambda: Registry(mlflow_database, f"export-{number}", f"t{number}_", create=True)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Makes a run folder as `optimize` and `validate` leave it, as far as an export looks at it."""

    def made(suite: JudgeSuite, verdict: str | None = None, rows: Sequence[LabeledTrace] = (), **config: Any) -> Path:
        values = {"name": "a-run", "data": {"path": "data.jsonl"}, "tracking": {"experiment": "of the run"}, **config}
        parsed = parse_config(values, "test", tmp_path)
        folder = RunFolder(tmp_path / "runs" / "a-run-1a2b3c4d")
        folder.write_yaml("config.yaml", parsed.model_dump(mode="json"))
        folder.write_json("metrics.json", {"dimensions": {name: {} for name in suite.programs}})
        suite.save(folder.programs("tuned"))
        data = Dataset(rows or simulate(20, 1))
        data.save(tmp_path / "data.jsonl")
        manifest = make_split(data, 0)
        manifest.save(folder["split.json"])
        folder.write_sealed("places.json", {"places": [astuple(place) for place in places_of(manifest, data)]})
        if verdict is not None:
            folder["test_uses.jsonl"].touch()
            folder.write_sealed("validation.json", {"verdict": verdict, "provenance": {"tuned judges": suite.hash}})
        return folder.path

    return made
