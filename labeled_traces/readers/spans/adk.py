"""Events of a session of Google's ADK as spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from labeled_traces.json_values import either, first, get, rows_of, text_of
from labeled_traces.readers.mending.agents import with_agents
from labeled_traces.readers.mending.repair import mend_value
from labeled_traces.readers.mending.requests import reply_text, request_text
from labeled_traces.readers.report import ReadOptions
from labeled_traces.readers.spans.fields import seconds
from labeled_traces.readers.spans.message_parts import messages_of
from labeled_traces.readers.spans.messages import llm_contents
from labeled_traces.readers.spans.usage import model_attributes
from labeled_traces.trace import JSON, Span, SpanKind

ROOT = "session"
_USER = "user"
_TOKENS = {"prompt": "prompt_token_count", "completion": "candidates_token_count", "total": "total_token_count"}
_HANDOVER = ("transfer_to_agent", "transfer_to_other_agent")


def session_spans(
    app: str, events: Sequence[JSON], logs: Sequence[JSON], where: str, options: ReadOptions
) -> list[Span]:
    """The spans of a session, the root with ROOT as its id.

    Args:
        logs: what old versions kept of the requests to the model, by `event_id`.
    """
    session = _Session(app, logs, where, options)
    for number, event in enumerate(events):
        session.add(event, number)
    return with_agents(session.close(), Span(ROOT, None, app, SpanKind.AGENT))


class _Session:
    def __init__(self, app: str, logs: Sequence[JSON], where: str, options: ReadOptions) -> None:
        self._where, self._options = where, options
        self._requests = {str(get(log, "event_id")): get(log, "model_request") for log in logs}
        self._logs, self._answered = len(logs), set[str]()
        self._root = Span(ROOT, None, app, SpanKind.AGENT)
        self._main: str | None = None
        self._spans: dict[str, Span] = {}
        self._agents: dict[tuple[str, str], str] = {}
        self._above: dict[str, str] = {}  # agent -> id of the agent's span that handed over to it
        self._asked: list[JSON] = []
        self._goal: str | None = None
        self._open: list[tuple[JSON, str, str]] = []  # id of the call, name of the tool, id of its span

    def add(self, event: JSON, number: int) -> None:
        place = f"{self._where}, event {number}"
        if event.get("partial") is True:
            self._options.report.add("part of a streamed answer, left out: the whole follows", place)
            return
        content = mend_value(_clean(event.get("content")), place, self._options)
        author = str(event.get("author") or get(content, "role") or "agent")
        parts = get(content, "parts") or []
        given = [either(part, "function_response") for part in parts if either(part, "function_response")]
        calls = [either(part, "function_call") for part in parts if either(part, "function_call")]
        start = seconds(event.get("timestamp"))
        if self._root.start is None:
            self._root = replace(self._root, start=start)
        for result in given:
            self._result(result, author, event, place, start)
        if given and not calls:
            return
        content = {**content, "role": _USER} if parts and author == _USER else content
        messages = messages_of(content, _USER if author == _USER else "assistant") if parts else []
        if author == _USER:
            self._asked += messages
            self._goal = request_text({"messages": messages}) or self._goal
            if self._root.inputs is None:
                self._root = replace(self._root, inputs=self._goal)
            return
        parent = self._agent(author, event, start)
        span_id = str(event.get("id") or f"event-{number}")
        if event.get("recorded"):
            self._unanswered(start)
        else:
            self._model(span_id, parent, author, messages, event)
        for place_of, call in enumerate(calls):
            above = parent if event.get("recorded") else span_id
            self._call(call, f"{span_id}-call-{place_of}", above, parent, start)

    def close(self) -> list[Span]:
        """All spans, with what a user said last and got no answer to."""
        self._unanswered(None)
        unread = "request to a model by an event that is not there, left out"
        self._options.report.add(unread, self._where, self._logs - len(self._answered))
        return [self._root, *self._spans.values()]

    def _unanswered(self, start: float | None) -> None:
        """What a user said, where no call of a model is there that was asked it."""
        if self._asked:
            said = {"messages": self._asked}
            self._put(Span(f"{ROOT}-user", ROOT, _USER, SpanKind.CHAIN, start, inputs=said))
            self._asked = []

    def _put(self, span: Span) -> str:
        copy, span_id = 2, span.span_id
        while span_id in self._spans or span_id == self._root.span_id:
            span_id, copy = f"{span.span_id}#{copy}", copy + 1
        self._spans[span_id] = replace(span, span_id=span_id)
        return span_id

    def _agent(self, author: str, event: JSON, start: float | None) -> str:
        """The id of the agent's span in this turn."""
        if self._main is None:
            self._main = author
            self._root = replace(self._root, name=author)
        if author == self._main:
            return self._root.span_id
        turn = str(either(event, "invocation_id") or "")
        key = (turn, author)
        if key not in self._agents:
            path = str(event.get("branch") or "").split(".")
            by_path = self._agents.get((turn, path[-2])) if len(path) > 1 else None
            above = by_path or self._above.get(author) or self._root.span_id
            span = Span(f"{turn}/{author}", above, author, SpanKind.AGENT, start, inputs=self._goal)
            self._agents[key] = self._put(span)
        return self._agents[key]

    def _model(self, span_id: str, parent: str, author: str, messages: list[JSON], event: JSON) -> None:
        code, message = either(event, "error_code"), either(event, "error_message")
        state = first(either(event.get("actions"), "state_delta"), get(event.get("options"), "update_context"))
        if not messages and not code and not message:
            if state:  # a step that changes the state alone
                self._put(
                    Span(span_id, parent, "state", SpanKind.CHAIN, seconds(event.get("timestamp")), outputs=state)
                )
            return
        asked: JSON = {"messages": self._asked} if self._asked else None
        request = self._requests.get(span_id)
        if request is not None:
            config = self._options.report.mapping(get(request, "config"), "config", f"{self._where}, event {span_id}")
            request = {**request, "config": config} if isinstance(request, dict) else request
            self._answered.add(span_id)
            asked = llm_contents(request, None)[0]
        self._asked = []
        usage = either(event, "usage_metadata")
        counts = {name: either(usage, key) for name, key in _TOKENS.items()}
        failed = bool(code or message)
        answer = reply_text({"messages": messages})
        if answer and parent == self._root.span_id:
            self._root = replace(self._root, outputs=answer)
        self._put(
            Span(
                span_id=span_id,
                parent_id=parent,
                name=author,
                kind=SpanKind.LLM,
                start=seconds(event.get("timestamp")),
                inputs=mend_value(asked, f"{self._where}, event {span_id}", self._options),
                outputs={"messages": messages} if messages else None,
                status="ERROR" if failed else "UNSET",
                error=": ".join(str(part) for part in (code, message) if part) if failed else None,
                attributes=model_attributes(counts, either(event, "model_version"), get(request, "model")),
            )
        )

    def _call(self, call: JSON, span_id: str, above: str, agent: str, start: float | None) -> None:
        name, arguments = str(get(call, "name") or ""), get(call, "args")
        to = first(either(arguments, "agent_name"), None)
        if name in _HANDOVER and isinstance(to, str):
            self._above.setdefault(to, agent)
        given = str(get(call, "id") or span_id)
        put = self._put(Span(given, above, name, SpanKind.TOOL, start, inputs=arguments))
        self._open.append((get(call, "id"), name, put))

    def _result(self, result: JSON, author: str, event: JSON, place: str, start: float | None) -> None:
        call_id, name = get(result, "id"), str(get(result, "name") or "")
        found = next((one for one in self._open if call_id is not None and one[0] == call_id), None)
        found = found or next((one for one in self._open if one[1] == name), None)
        if found is None:
            self._options.report.add("tool result without its call", place)
            parent = self._root.span_id if author == _USER else self._agent(author, event, start)
            put = self._put(Span(str(call_id or f"{event.get('id')}-result"), parent, name, SpanKind.TOOL, start))
        else:
            self._open.remove(found)
            put = found[2]
        self._spans[put] = replace(self._spans[put], outputs=get(result, "response"), end=start)


def _clean(content: JSON) -> JSON:
    """A content without fields that say nothing; pictures and files are named, not shown."""
    said = content if isinstance(content, dict) else {"parts": content}
    beside = {key: value for key, value in said.items() if key not in ("role", "parts") and value is not None}
    parts = rows_of(said.get("parts")) or rows_of(beside)
    kept = [
        {key: value for key, value in part.items() if value is not None}
        for part in (part if isinstance(part, dict) else {"text": text_of(part)} for part in parts)
    ]
    for part in kept:
        for key in ("inline_data", "file_data"):
            data = either(part, key)
            if data is not None:
                part.clear()
                part["text"] = f"[{key}: {either(data, 'mime_type') or 'unknown'}]"
    return {**said, "parts": kept} if content is not None else None
