from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from judges.program import PROMPTS, seed_suite
from judges.render import render
from labeled_traces.dataset import Dataset, LabeledTrace
from labeled_traces.json_values import decoded
from labeled_traces.label import ErrorLabel, Impact
from labeled_traces.readers import read
from labeled_traces.sealed import Seal
from labeled_traces.simulated import rate, simulate
from labeled_traces.split import LeakageError, SplitManifest, make_split
from labeled_traces.trace import JSON, Span, SpanKind, Trace
from pipeline.optimizers.examples import ExampleBuilder


def row(trace_id: str, text: JSON, **fields: JSON) -> LabeledTrace:
    return LabeledTrace(Trace(trace_id, (Span("a", None, "agent", SpanKind.AGENT, inputs=text),)), **fields)


def error() -> ErrorLabel:
    return ErrorLabel("a", ("plan_quality",), "x", Impact.LOW)


def test_a_prompt_that_quotes_the_testset_is_refused() -> None:
    system = "You are a careful data agent and you always use the tools that you have."
    secret = "Revenue of Nordbank in 2023 was taken from the cached page of last year"
    test = Dataset(
        [
            row(
                "t1",
                f"{system} {secret}",
                errors=(replace(error(), description="a label nobody may copy into a prompt"),),
            )
        ]
    )
    train = Dataset([row("t2", f"{system} Something else happened here in the trainset")])
    clean = {"rubric": "Report values that no tool returned.", "notes": f"It says: {system}"}
    Seal.of(test, train).check(clean)
    with pytest.raises(LeakageError, match="notes holds 8 words in a row of the held-out trace 't1'"):
        Seal.of(test).check(clean)
    quoted = {"rubric": "ok", "examples": "see: REVENUE of Nordbank, in 2023: was taken\nfrom the..."}
    with pytest.raises(LeakageError, match=r"examples holds 8 words .* 'revenue of nordbank in 2023 was taken from'"):
        Seal.of(test, train).check(quoted)
    Seal.of(test, train, words=10).check(quoted)
    with pytest.raises(LeakageError, match="held-out trace 't1'"):
        Seal.of(test, train).check({"rubric": "A label nobody may copy into a prompt!"})


def test_an_example_of_a_test_trace_is_refused_whatever_its_text() -> None:
    test = Dataset([row("t1", "nothing of this is in the prompt")])
    example = {"excerpt": "short", "findings": [], "score": 3, "trace_id": " t1"}
    others = [{**example, "trace_id": "t2"}, {**example, "trace_id": 1}, {**example, "trace_id": ["t1"]}, {}]
    lines = [*map(json.dumps, others), "{", "t1"]
    Seal.of(test).check({"examples": "\n".join(lines)})
    with pytest.raises(LeakageError, match="examples holds an example of the held-out trace"):
        Seal.of(test).check({"examples": "\n".join([*lines, json.dumps(example)])})


@pytest.mark.parametrize("trace_id", ["t 1", "sim-0-0001", 'q"ü'])
def test_an_example_of_a_test_trace_is_refused_wherever_its_id_stands(trace_id: str) -> None:
    test = Dataset([row(trace_id, "nothing of this is in the prompt")])
    example = {"excerpt": "short", "trace_id": trace_id, "score": 3}
    texts = [
        json.dumps([{"trace_id": "t2"}, example]),
        json.dumps({"examples": [{"of": example}]}, indent=2, ensure_ascii=False),
        f"Such as: {json.dumps(example)}",
        f"```json\n{json.dumps(example, indent=1)}\n```",
    ]
    if '"' not in trace_id:
        texts += [json.dumps({"excerpt": json.dumps(example)}), json.dumps([json.dumps([json.dumps(example)])])]
        texts += [str(example), f"trace_id: {trace_id!r}"]
    for text in texts:
        with pytest.raises(LeakageError, match="rubric holds an example of the held-out trace"):
            Seal.of(test).check({"rubric": text})
    Seal.of(test).check({"rubric": 'trace_id, trace_id: and\ntrace_id = "trace_id": "\\x" and "trace_id": "\\'})


def whole(value: JSON) -> JSON:
    """JSON in a text as the value that it is."""
    value = decoded(value)
    if isinstance(value, dict):
        return {key: whole(inner) for key, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, list) else value


def reordered(value: JSON) -> JSON:
    """Keys in the other order at all levels, and one more."""
    if isinstance(value, dict):
        return {"note": "x", **{key: reordered(value[key]) for key in reversed(value)}}
    return [reordered(inner) for inner in value] if isinstance(value, list) else value


def in_lines(value: JSON) -> str:
    if isinstance(value, dict):
        return "".join(f"{key}: {in_lines(inner)}\n" for key, inner in value.items())
    return "\n".join(f"- {in_lines(inner)}" for inner in value) if isinstance(value, list) else str(value)


def bare(value: JSON) -> str:
    """Without the names of the keys."""
    if isinstance(value, dict | list):
        return "; ".join(bare(inner) for inner in (value.values() if isinstance(value, dict) else value))
    return str(value)


DISGUISES: dict[str, Callable[[JSON], str]] = {
    "white space": lambda value: json.dumps(value).replace(" ", "\n\t"),
    "indented": lambda value: json.dumps(value, indent=4),
    "reordered keys and one more": lambda value: json.dumps(reordered(value)),
    "JSON in JSON": lambda value: json.dumps({"notes": json.dumps(reordered(value))}),
    "YAML": lambda value: yaml.safe_dump(reordered(value), allow_unicode=True),
    "key: value": lambda value: in_lines(reordered(value)),
    "without keys": lambda value: bare(reordered(value)),
}


@pytest.fixture(scope="module")
def simulated() -> tuple[Dataset, SplitManifest]:
    data = Dataset(rate(simulate(120, 0), 0))
    return data, make_split(data, 0)


def sealed(data: Dataset, manifest: SplitManifest) -> Seal:
    return Seal.of(data.subset(manifest.testset), data.subset([*manifest.trainset, *manifest.valset]))


def pasted(trace: Trace) -> JSON:
    """A trace without its ids."""
    return [{"step": span.name, "in": whole(span.inputs), "out": whole(span.outputs)} for span in trace.spans]


@pytest.mark.parametrize("how", DISGUISES)
def test_a_disguised_copy_is_caught_and_named(simulated: tuple[Dataset, SplitManifest], how: str) -> None:
    data, manifest = simulated
    seal = sealed(data, manifest)
    for trace_id in manifest.testset:
        notes = f"This agent looks figures up.\n{DISGUISES[how](pasted(data[trace_id].trace))}\nIt then computes."
        assert trace_id in {leak.trace_id for leak in seal.leaks({"notes": notes})}
    with pytest.raises(LeakageError, match=r"^notes holds .* of the held-out trace 'sim-0-"):
        seal.check({"notes": notes})


@pytest.mark.parametrize("how", DISGUISES)
def test_disguised_copies_of_real_runs(shared_data: Path, how: str) -> None:
    """Whole runs, and what a single tool returned where nothing of it is a run of words: an order, a customer."""
    data = read([shared_data / "agentrx_tau"], "agentrx")[0]
    manifest = make_split(data, 0)
    seal = sealed(data, manifest)
    for trace_id in manifest.testset:
        assert trace_id in {leak.trace_id for leak in seal.leaks({"p": DISGUISES[how](pasted(data[trace_id].trace))})}
        orders = [span for span in data[trace_id].trace.spans if span.name == "get_order_details"]
        known = json.dumps([pasted(data[i].trace) for i in (*manifest.trainset, *manifest.valset)])
        for order in (whole(span.outputs) for span in orders):
            if isinstance(order, dict) and order["order_id"] not in known:
                assert trace_id in {leak.trace_id for leak in seal.leaks({"p": DISGUISES[how](order)})}


def test_what_train_and_test_share_and_ordinary_texts_are_no_copies(
    simulated: tuple[Dataset, SplitManifest], shared_data: Path
) -> None:
    texts = {f"{name} {part}": text for name, p in seed_suite().programs.items() for part, text in p.parts.items()}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in PROMPTS.glob("*.md")}
    real = read([shared_data / "agentrx_tau"], "agentrx")[0]
    for data, manifest in (simulated, *((real, make_split(real, seed)) for seed in range(3))):
        seal = sealed(data, manifest)
        trainset = list(data.subset(manifest.trainset))
        seen = {f"trace {r.trace_id}": render(r.trace, 24_000).text for r in trainset}
        builder = ExampleBuilder(trainset)
        lines = [line for name in seed_suite().programs for _, line in builder.catalogue(name)]
        shown = {f"example {number}": line for number, line in enumerate(lines)}
        assert [leak.what for leak in seal.leaks({**texts, **seen, **shown})] == []


def test_an_example_made_from_a_test_trace_is_caught_under_another_id(shared_data: Path) -> None:
    data = read([shared_data / "agentrx_tau"], "agentrx")[0]
    manifest = make_split(data, 0)
    seal, testset = sealed(data, manifest), data.subset(manifest.testset)
    lines = [line for name in seed_suite().programs for _, line in ExampleBuilder(list(testset)).catalogue(name)]
    assert len(lines) > 100
    for line in lines:
        example = json.loads(line)
        source = example.pop("trace_id")
        disguised = json.dumps({**reordered(example), "trace_id": "mine"}, indent=1)
        assert source in {leak.trace_id for leak in seal.leaks({"examples": disguised})}


def test_numbers_far_apart_or_known_are_no_copy() -> None:
    test = Dataset([row("t1", {"order": "W4817126", "zip": 19122, "item": 115129, "card": 7731})])
    train = [row("t2", {"order": "W4817126", "zip": 19122})]
    seal = Seal.of(test)
    seal.check({"notes": "It asks for a zip such as 19122. " + "word " * 60 + "An order such as W4817126."})
    seal.check({"notes": "It asks for a zip such as 19122 and for the numbers 3, 12 and 250."})
    with pytest.raises(LeakageError, match="notes holds, close together, numbers or ids of the held-out trace 't1': "):
        seal.check({"notes": "zip 19122\norder: #W4817126"})
    Seal.of(test, train).check({"notes": "zip 19122\norder: #W4817126"})


def test_a_longer_run_can_be_asked_for() -> None:
    words = [f"word{chr(97 + n)}" for n in range(20)]
    seal = Seal.of(Dataset([row("t1", " ".join(words)), row("t2", " ".join(words[:12]))]))
    assert {leak.trace_id for leak in seal.leaks({"p": " ".join(words[:14])})} == {"t1", "t2"}
    assert {leak.trace_id for leak in seal.leaks({"p": " ".join(words[:14])}, 14)} == {"t1"}
    assert list(seal.leaks({"p": " ".join([*words[:9], "x", *words[9:20]])}, 14)) == []


def test_copies_with_changed_words_are_caught(simulated: tuple[Dataset, SplitManifest]) -> None:
    data, manifest = simulated
    seal, draw = sealed(data, manifest), random.Random(0)
    for trace_id in manifest.testset:
        words = json.dumps(pasted(data[trace_id].trace)).split(" ")
        text = " ".join("other" if draw.random() < 0.05 else word for word in words)
        assert trace_id in {leak.trace_id for leak in seal.leaks({"notes": text})}
