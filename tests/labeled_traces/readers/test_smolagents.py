from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from labeled_traces.readers import read, sniff
from labeled_traces.trace import JSON

TASK: JSON = {"task": "How high?", "task_images": None}


def action(number: int, **more: JSON) -> dict[str, Any]:
    return {
        "step_number": number,
        "timing": {"start_time": 1767261600.0 + number, "end_time": 1767261601.0 + number, "duration": 1.0},
        "model_input_messages": [{"role": "user", "content": [{"type": "text", "text": "How high?"}]}],
        "model_output_message": {"role": "assistant", "content": f"thought {number}"},
        "tool_calls": [],
        "error": None,
        "observations": None,
        "action_output": None,
        "token_usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
        "is_final_answer": False,
        **more,
    }


def steps() -> list[JSON]:
    look = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": "tower"}}}
    return [
        TASK,
        action(1, error={"type": "AgentParsingError", "message": "no code"}),
        action(2, tool_calls=[look], observations="330 m"),
        action(3, is_final_answer=True, action_output="330 m"),
    ]


def test_steps_of_one_run_in_every_form(tmp_path: Path) -> None:
    forms = {
        "array": json.dumps(steps(), indent=1),
        "line": json.dumps(steps()),
        "lines": "\n".join(map(json.dumps, steps())),
        "record": json.dumps({"steps": steps()}),
    }
    for name, text in forms.items():
        path = tmp_path / f"{name}.json"
        path.write_text(text, encoding="utf-8")
        assert sniff(path) == "smolagents"
        rows, _ = read(path)
        root, parsed, look, tool, last = rows[name].trace.spans
        assert (root.kind, root.inputs, root.outputs) == ("AGENT", "How high?", "330 m")
        assert (parsed.status, parsed.error) == ("ERROR", "AgentParsingError: no code")
        assert look.inputs == {"messages": [{"role": "user", "content": "How high?"}]}
        assert look.attributes["llm.token_count"] == {"prompt": 5, "completion": 2, "total": 7}
        assert (tool.name, tool.parent_id, tool.inputs, tool.outputs) == ("look", "step-2", {"at": "tower"}, "330 m")
        assert (last.start, last.end) == (1767261603.0, 1767261604.0)


def test_several_runs_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{json.dumps(steps())}\n{json.dumps(steps()[:2])}\n", encoding="utf-8")
    rows, _ = read(path)
    assert [(row.trace_id, len(row.trace.spans)) for row in rows] == [("runs-1", 5), ("runs-2", 2)]


def test_a_system_prompt_stands_in_for_messages_that_were_not_kept(tmp_path: Path) -> None:
    brief = [{key: value for key, value in action(1).items() if key != "model_input_messages"}]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"system_prompt": {"system_prompt": "Be exact."}, "steps": [TASK, *brief]}))
    rows, _ = read(path)
    assert rows["a"].trace.spans[1].inputs == {"messages": [{"role": "system", "content": "Be exact."}]}
