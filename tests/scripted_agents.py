"""Agents whose model is scripted, traced by MLflow: run as `python scripted_agents.py URI EXPERIMENT`.

A process of its own: MLflow's autologging changes the libraries that it logs.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import mlflow
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, tool
from langchain_core.utils.function_calling import convert_to_openai_tool


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(one) for one in tools], model="scripted-1")


@tool
def search(query: str) -> str:
    """Search the web."""
    return f'{{"found": "{query}: 6371 km"}}'


@tool
def compute(expression: str) -> str:
    """Evaluate an expression."""
    raise ValueError(f"cannot read {expression!r}")


def said(text: str, *calls: tuple[str, dict[str, str]]) -> AIMessage:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    made = [{"name": name, "args": args, "id": f"c{number}"} for number, (name, args) in enumerate(calls)]
    return AIMessage(text, tool_calls=made, usage_metadata=usage)


def graph(session: str) -> None:
    tools: list[BaseTool] = [search, compute]
    replies = [
        said("Plan: search, compute.", ("search", {"query": "radius"})),
        said("", ("compute", {"expression": "2*"})),
    ]
    agent: Any = create_agent(Scripted(messages=iter(replies)), tools, system_prompt="Be careful.", name="geo")
    with suppress(ValueError):  # the tool that fails ends the run
        agent.invoke(
            {"messages": [("user", "How long is the equator?")]}, config={"configurable": {"thread_id": session}}
        )


def coder() -> None:
    """As the plugin for OpenCode logs a turn."""
    root = mlflow.start_span_no_context("opencode_conversation", span_type="AGENT", inputs={"prompt": "Fix the test"})

    def child(name: str, kind: str, inputs: Any, outputs: Any, **attributes: Any) -> None:
        span = mlflow.start_span_no_context(
            name, parent_span=root, span_type=kind, inputs=inputs, attributes=attributes
        )
        span.set_outputs(outputs)
        span.end()

    asked = {"model": "p/m", "messages": [{"role": "user", "content": "Fix the test"}]}
    answer = {"choices": [{"message": {"role": "assistant", "content": "I run it."}}]}
    usage = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
    child("llm_call", "LLM", asked, answer, **{"mlflow.chat.tokenUsage": usage})
    child("tool_edit", "TOOL", {"old": "y"}, {"error": "not found"}, tool_name="edit", status="error")
    child("tool_bash", "TOOL", {"command": "pytest"}, None, tool_name="bash", status="running")
    root.set_outputs({"response": "Fixed.", "status": "completed"})
    root.end()


if __name__ == "__main__":
    mlflow.set_tracking_uri(sys.argv[1])
    mlflow.set_experiment(sys.argv[2])
    mlflow.langchain.autolog()
    graph("s1")
    graph("s2")
    coder()
    mlflow.flush_trace_async_logging()
