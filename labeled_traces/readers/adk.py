"""Google's ADK: sessions `{id, app_name, events}` and evaluation sets `{eval_set_id, eval_cases}`.

A session is one trace, whatever its number of turns: every event of an agent is a call of a model, its function calls
are tools below it. The first agent is the root; agents that it hands over to stand below it, one span a turn. A case
of an evaluation set is the conversation that is expected (`eval_set_id:eval_id`), which is no run: its tools may have
no outputs, and nobody looked at it. Its rubrics and the state that it expects are kept from the judges. Names may be in
camelCase, as ADK's server writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from labeled_traces.dataset import LabeledTrace
from labeled_traces.json_values import either, first, get, rows_of
from labeled_traces.readers.files.records import read_files
from labeled_traces.readers.mending.repair import build_trace, mend_value
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.adk import session_spans
from labeled_traces.task_group import task_group
from labeled_traces.trace import JSON, TraceError

_ACCEPTED = "accepted are sessions {id, app_name, events} and evaluation sets {eval_set_id, eval_cases}"
NO_CASE = "evaluation set without a case"
NO_RUN = "expected conversation of an evaluation set: no run"
_EXPECTED = ("rubrics", "final_session_state")
"""What a case of an evaluation set says of the right answer beside its conversation."""


def role(record: JSON) -> str | None:
    """`traces` for sessions and evaluation sets, None for anything else."""
    if not isinstance(record, dict):
        return None
    own = {"app_name", "appName", "event_logs", "past_events", "last_update_time", "lastUpdateTime"}
    session = "id" in record and isinstance(record.get("events"), list) and bool(own & record.keys())
    return "traces" if session or isinstance(either(record, "eval_cases"), list) else None


def read(paths: Sequence[Path], options: ReadOptions) -> Iterator[tuple[str, LabeledTrace]]:
    """(place, row) pairs. Records that cannot be read are left out.

    Raises:
        TraceError: labels, which this format does not have.
    """
    options.refuse_labels()
    for where, record in read_files(paths, options.report):
        cases = either(record, "eval_cases") if isinstance(record, dict) else None
        options.report.add(NO_CASE, where, cases == [])
        for number, item in enumerate(cases if isinstance(cases, list) else [record]):
            place = where if item is record else f"{where}, eval_cases[{number}]"
            try:
                if item is not record:
                    yield place, _case(item, record, place, options)
                elif role(record) is None:
                    raise TraceError(f"{where}: nothing of Google's ADK: {_ACCEPTED}")
                else:
                    yield where, _session(record, where, options)
            except TraceError as error:
                options.report.leave_out(error)


def _session(record: Mapping[str, JSON], where: str, options: ReadOptions) -> LabeledTrace:
    events = record["events"]
    trace_id = str(record.get("id") or "").strip()
    if not trace_id or not events or not all(isinstance(event, dict) for event in events):
        raise TraceError(f"{where}: accepted is a session with an id and at least one event")
    name = str(first(either(record, "app_name"), record.get("current_agent_name")) or "")
    spans = session_spans(name, events, rows_of(record.get("event_logs")), where, options)
    trace = build_trace(trace_id, spans, "none", where, options)
    about = mend_value({"source": "adk", "session": trace_id, "app": name}, where, options)
    return LabeledTrace(trace, group=task_group(trace), clean="unknown", metadata=about)


def _case(case: JSON, record: Mapping[str, JSON], where: str, options: ReadOptions) -> LabeledTrace:
    turns = get(case, "conversation")
    name = str(either(case, "eval_id") or "") if isinstance(case, dict) else ""
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns) or not name:
        raise TraceError(f"{where}: holds no recorded conversation: accepted is {{eval_id, conversation: [...]}}")
    for key in _EXPECTED:
        options.report.strip(f"eval_cases.{key}", 1 if either(case, key) else 0)
    given = either(case, "session_input")
    app = str(either(given, "app_name") or "agent") if isinstance(given, dict) else "agent"
    trace_id = f"{either(record, 'eval_set_id') or 'eval_set'}:{name}"
    events = [event for number, turn in enumerate(turns) for event in _events(turn, number, app, where, options)]
    trace = build_trace(trace_id, session_spans(app, events, [], where, options), "none", where, options)
    about = mend_value({"source": "adk", "app": app}, where, options)
    options.report.add(NO_RUN, f"{where}, {trace_id}")
    return LabeledTrace(trace, group=f"task {name}", clean="unknown", metadata=about)


def _events(
    turn: Mapping[str, JSON], number: int, app: str, where: str, options: ReadOptions
) -> Iterator[dict[str, JSON]]:
    """A recorded turn as the events that a session would hold."""
    about = {"invocation_id": either(turn, "invocation_id"), "timestamp": either(turn, "creation_timestamp")}
    said = options.report.mapping(either(turn, "intermediate_data"), "intermediate_data", f"{where}, turn {number}")
    rows = either(said, "invocation_events")
    own: list[JSON] = [{"author": "user", "content": either(turn, "user_content")}]
    odd = [row for row in rows_of(rows) if not isinstance(row, dict)]
    own += [row for row in rows_of(rows) if isinstance(row, dict)]
    for key, part in (("tool_uses", "function_call"), ("tool_responses", "function_response")):
        used = [one for one in rows_of(either(said, key)) if isinstance(one, dict)]
        odd += [one for one in rows_of(either(said, key)) if not isinstance(one, dict)]
        own += [{"author": app, "content": {"role": "model", "parts": [{part: one}]}, "recorded": True} for one in used]
    for pair in rows_of(either(said, "intermediate_responses")):
        if isinstance(pair, list) and len(pair) == 2:
            own.append({"author": pair[0], "content": {"role": "model", "parts": pair[1]}})
        else:
            odd.append(pair)
    options.report.add("part of a recorded turn that cannot be read, left out", f"{where}, turn {number}", len(odd))
    own.append({"author": app, "content": either(turn, "final_response")})
    for place, event in enumerate(own):
        yield {**about, "id": f"turn-{number}-{place}", **event}
