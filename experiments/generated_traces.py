"""Traces of an agent at work, in the forms in which systems write them: as many megabytes as are wanted.

Texts have the lengths of real ones, from a line to some kilobytes, and every call of the model repeats the history.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeled_traces.dataset import LabeledTrace, to_json
from labeled_traces.trace import Span, SpanKind, Trace

_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"
_RARE = ("answer", "expected", "reference", "patch", "12.5", "2024-05-01", "C:\\new", "{x}", "[y]", "naïve", "—")
_STEPS = 6
_RESULTS = (600, 2_500, 8_000)
_START = 1_700_000_000


@dataclass(frozen=True)
class Run:
    """One run: `steps` are (what the model said, the tool's arguments, the tool's result)."""

    number: int
    system: str
    goal: str
    steps: tuple[tuple[str, dict[str, Any], str], ...]
    answer: str


def runs(seed: int = 0) -> Iterator[Run]:
    """Runs without end."""
    generator = random.Random(seed)
    words = [*_RARE, *("".join(generator.choices(_LETTERS, range(26, 0, -1), k=n % 9 + 1)) for n in range(600))]
    texts = {size: [_text(generator, words, size) for _ in range(40)] for size in (150, 600, 2_500, 8_000)}
    number = 0
    while True:

        def text(size: int, number: int = number) -> str:
            return f"{number}-{generator.randrange(10**6)}: {generator.choice(texts[size])}"

        steps = tuple(
            (text(600), {"query": text(150), "limit": generator.randrange(100)}, text(generator.choice(_RESULTS)))
            for _ in range(_STEPS)
        )
        yield Run(number, text(2_500), text(600), steps, text(600))
        number += 1


def _text(generator: random.Random, vocabulary: list[str], size: int) -> str:
    lines: list[str] = []
    while sum(len(line) for line in lines) < size:
        words = " ".join(generator.choice(vocabulary) for _ in range(generator.randint(5, 14)))
        lines.append(words + generator.choice((". ", ".\n", ':\n```\n{"id": 12, "name": "x"}\n```\n', ", ")))
    return "".join(lines)


def row_of(run: Run) -> LabeledTrace:
    """As our own JSON Lines have it."""
    trace_id = f"{run.number:032x}"
    spans = [_span(item) for item in _flat(run)]
    return LabeledTrace(Trace(trace_id, tuple(spans)), group=f"task {run.number}", clean="unknown")


def _flat(run: Run) -> Iterator[dict[str, Any]]:
    """The spans of a run with what went in and out: the agent, and a call of the model and one of a tool a step."""
    root, start = f"{run.number << 16:016x}", _START + run.number * 60
    about = {"trace_id": f"{run.number:032x}", "parent_id": root}
    yield {
        **about, "span_id": root, "parent_id": None, "name": "agent", "kind": "AGENT", "start": start,
        "inputs": run.goal, "outputs": run.answer,
    }  # fmt: skip
    history: list[dict[str, Any]] = [{"role": "system", "content": run.system}, {"role": "user", "content": run.goal}]
    for number, (said, arguments, result) in enumerate(run.steps, 1):
        model, tool = (f"{(run.number << 16) + 2 * number + which:016x}" for which in (0, 1))
        call = {"id": f"call-{number}", "name": "search", "arguments": arguments}
        reply = {"role": "assistant", "content": said, "tool_calls": [call]}
        at = start + 2 * number
        yield {
            **about, "span_id": model, "name": "chat", "kind": "LLM", "start": at,
            "inputs": {"messages": list(history), "tools": [_TOOL]}, "outputs": {"messages": [reply]},
        }  # fmt: skip
        yield {
            **about, "span_id": tool, "name": "search", "kind": "TOOL", "start": at + 1,
            "inputs": arguments, "outputs": result,
        }  # fmt: skip
        history += [reply, {"role": "tool", "tool_call_id": call["id"], "content": result}]


_TOOL = {
    "type": "function",
    "function": {
        "name": "search",
        "description": "Looks up what the shop knows about orders, prices and customers.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}},
    },
}


def _span(item: dict[str, Any]) -> Span:
    given = {key: item[key] for key in ("span_id", "parent_id", "name", "inputs", "outputs")}
    return Span(**given, kind=SpanKind(item["kind"]), start=item["start"], end=item["start"] + 0.75, status="OK")


def _openinference(item: dict[str, Any]) -> dict[str, Any]:
    """As OpenInference's instrumentations write attributes: messages one by one, and all of it once more as a value."""
    attributes: dict[str, Any] = {"openinference.span.kind": item["kind"]}
    for side, name in (("inputs", "input"), ("outputs", "output")):
        value = item[side]
        is_text = isinstance(value, str)
        attributes[f"{name}.value"] = value if is_text else json.dumps(value)
        attributes[f"{name}.mime_type"] = "text/plain" if is_text else "application/json"
        for number, message in enumerate(value["messages"] if item["kind"] == "LLM" else ()):
            prefix = f"llm.{name}_messages.{number}.message"
            attributes |= {f"{prefix}.role": message["role"], f"{prefix}.content": message["content"]}
            for place, call in enumerate(message.get("tool_calls", ())):
                function = f"{prefix}.tool_calls.{place}.tool_call.function"
                attributes |= {f"{function}.name": call["name"]}
                attributes |= {f"{function}.arguments": json.dumps(call["arguments"])}
    if item["kind"] == "LLM":
        attributes |= {"llm.model_name": "gpt-x", "llm.token_count.prompt": 1_200, "llm.token_count.completion": 80}
        attributes["llm.tools.0.tool.json_schema"] = json.dumps(_TOOL)
    return attributes


def _readable_span(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": item["name"],
        "context": {"trace_id": f"0x{item['trace_id']}", "span_id": f"0x{item['span_id']}", "trace_state": "[]"},
        "kind": "SpanKind.INTERNAL",
        "parent_id": item["parent_id"] and f"0x{item['parent_id']}",
        "start_time": f"2024-05-01T00:00:{item['start'] % 60:02}.000000Z",
        "end_time": f"2024-05-01T00:00:{item['start'] % 60:02}.750000Z",
        "status": {"status_code": "OK"},
        "attributes": _openinference(item),
        "events": [],
        "links": [],
    }


def _otlp(items: list[dict[str, Any]]) -> dict[str, Any]:
    spans = [
        {
            "traceId": item["trace_id"],
            "spanId": item["span_id"],
            **({"parentSpanId": item["parent_id"]} if item["parent_id"] else {}),
            "name": item["name"],
            "kind": 1,
            "startTimeUnixNano": str(item["start"] * 10**9),
            "endTimeUnixNano": str(item["start"] * 10**9 + 750_000_000),
            "attributes": [{"key": key, "value": _any_value(value)} for key, value in _openinference(item).items()],
            "status": {"code": 1},
        }
        for item in items
    ]
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": spans}]}]}


def _any_value(value: Any) -> dict[str, Any]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


def _mlflow(run: Run) -> dict[str, Any]:
    spans = [
        {
            "trace_id": item["trace_id"],
            "span_id": item["span_id"],
            "parent_span_id": item["parent_id"],
            "name": item["name"],
            "start_time_unix_nano": item["start"] * 10**9,
            "end_time_unix_nano": item["start"] * 10**9 + 750_000_000,
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {
                "mlflow.spanType": json.dumps("CHAT_MODEL" if item["kind"] == "LLM" else item["kind"]),
                "mlflow.spanInputs": json.dumps(item["inputs"]),
                "mlflow.spanOutputs": json.dumps(item["outputs"]),
            },
            "events": [],
        }
        for item in _flat(run)
    ]
    return {"info": {"trace_id": f"tr-{run.number:032x}", "state": "OK"}, "data": {"spans": spans}}


def _tau(run: Run) -> dict[str, Any]:
    """A chat log, as tau-bench has it."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": run.system}, {"role": "user", "content": run.goal}]
    for number, (said, arguments, result) in enumerate(run.steps, 1):
        function = {"name": "search", "arguments": json.dumps(arguments)}
        call = {"id": f"call-{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": said, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "name": "search", "content": result})
    messages.append({"role": "assistant", "content": run.answer})
    return {"task_id": run.number, "trial": 0, "reward": 1.0, "traj": messages, "info": {"task": {"outputs": []}}}


def _langfuse(run: Run) -> dict[str, Any]:
    trace = {"id": f"{run.number:032x}", "name": "agent", "timestamp": "2024-05-01T00:00:00Z", "sessionId": None}
    return {"trace": trace, "observations": [_observation(item) for item in _flat(run)]}


def _observation(item: dict[str, Any]) -> dict[str, Any]:
    kind = {"LLM": "GENERATION"}.get(item["kind"], item["kind"])
    is_model = kind == "GENERATION"
    return {
        "id": item["span_id"],
        "traceId": item["trace_id"],
        "parentObservationId": item["parent_id"],
        "type": kind,
        "name": item["name"],
        "startTime": f"2024-05-01T00:00:{item['start'] % 60:02}.000Z",
        "endTime": f"2024-05-01T00:00:{item['start'] % 60:02}.750Z",
        "input": item["inputs"],
        "output": item["outputs"]["messages"][0] if is_model else item["outputs"],
        "level": "DEFAULT",
        "metadata": None,
        **({"model": "gpt-x", "usageDetails": {"input": 1_200, "output": 80, "total": 1_280}} if is_model else {}),
    }


def _langsmith(item: dict[str, Any]) -> dict[str, Any]:
    kind = {"AGENT": "chain"}.get(item["kind"], item["kind"].lower())
    return {
        "id": item["span_id"],
        "trace_id": item["trace_id"],
        "parent_run_id": item["parent_id"],
        "run_type": kind,
        "name": "LangGraph" if kind == "chain" else item["name"],
        "start_time": f"2024-05-01T00:00:{item['start'] % 60:02}.000000",
        "end_time": f"2024-05-01T00:00:{item['start'] % 60:02}.750000",
        "inputs": {"input": item["inputs"]} if isinstance(item["inputs"], str) else item["inputs"],
        "outputs": {"output": item["outputs"]} if isinstance(item["outputs"], str) else item["outputs"],
        "status": "success",
        "extra": {"metadata": {"ls_model_name": "gpt-x"}} if kind == "llm" else {},
    }


def _lines(records: Iterator[Any]) -> Iterator[str]:
    return (json.dumps(record) + "\n" for record in records)


def _document(start: str, records: Iterator[Any]) -> Iterator[str]:
    """One JSON value; its end is written when the file is closed, see `write`."""
    for number, record in enumerate(records):
        yield (start if number == 0 else ",\n") + json.dumps(record)


def _mixed(seed: int) -> Iterator[dict[str, Any]]:
    """Spans of twenty traces in turn, as a collector gets them from agents that work at the same time."""
    return (item for turn in _turns(seed) for item in turn)


def _turns(seed: int) -> Iterator[list[dict[str, Any]]]:
    source = runs(seed)
    while True:
        groups = [list(_flat(next(source))) for _ in range(20)]
        yield from (list(turn) for turn in zip(*groups, strict=True))


FORMS: dict[str, Callable[[int], Iterator[str]]] = {
    "dataset": lambda seed: _lines(to_json(row_of(run)) for run in runs(seed)),
    "dataset-array": lambda seed: _document("[", (to_json(row_of(run)) for run in runs(seed))),
    "otlp": lambda seed: _lines(_otlp(list(_flat(run))) for run in runs(seed)),
    "otlp-mixed": lambda seed: _lines(_otlp(turn) for turn in _turns(seed)),
    "otlp-document": lambda seed: _document(
        '{"resourceSpans": [', (_otlp(list(_flat(run)))["resourceSpans"][0] for run in runs(seed))
    ),
    "openinference": lambda seed: _lines(_readable_span(item) for run in runs(seed) for item in _flat(run)),
    "mlflow": lambda seed: _lines(_mlflow(run) for run in runs(seed)),
    "mlflow-array": lambda seed: _document("[", (_mlflow(run) for run in runs(seed))),
    "langfuse": lambda seed: _lines(_langfuse(run) for run in runs(seed)),
    "langfuse-mixed": lambda seed: _document('{"data": [', map(_observation, _mixed(seed))),
    "langsmith-mixed": lambda seed: _lines(map(_langsmith, _mixed(seed))),
    "agentrx": lambda seed: _document("[", (_tau(run) for run in runs(seed))),
}
"""Name -> the pieces of a file, without end."""


DOCUMENTS = {
    **dict.fromkeys(("dataset-array", "mlflow-array", "agentrx"), "]\n"),
    **dict.fromkeys(("otlp-document", "langfuse-mixed"), "]}\n"),
}
"""The forms that are one JSON value a file -> how it ends; the others are JSON Lines."""


def write(path: Path, form: str, megabytes: float, seed: int = 0) -> None:
    """Writes at least so many megabytes."""
    size = 0
    with path.open("w", encoding="utf-8") as file:
        for piece in FORMS[form](seed):
            size += file.write(piece)
            if size >= megabytes * 1e6:
                break
        file.write(DOCUMENTS.get(form, ""))
