"""The agent's six tools: MCP-style descriptions, and schemas that are enforced before a call is executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from labeled_traces.simulated.plan import parse_query
from labeled_traces.simulated.world import (
    BANKS,
    COUNTRIES,
    FIRST_YEAR,
    LAST_YEAR,
    METRICS,
    UNIT,
    World,
    metric_of,
    series,
    top_banks,
)
from labeled_traces.trace import JSON

_YEAR = {"type": "integer", "minimum": FIRST_YEAR, "maximum": LAST_YEAR}
_METRIC = {"enum": list(METRICS)}
_ENTITY = {"enum": [*BANKS, *COUNTRIES]}


def _tool(name: str, description: str, properties: dict[str, JSON]) -> dict[str, JSON]:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS: tuple[dict[str, JSON], ...] = (
    _tool(
        "db_lookup",
        f"Read one exact figure from the database in {UNIT}: a bank's market value or a country's GDP in a year.",
        {"entity": _ENTITY, "metric": _METRIC, "year": _YEAR},
    ),
    _tool(
        "db_series",
        f"Read the exact yearly figures of one bank or country from the database in {UNIT}.",
        {"entity": _ENTITY, "metric": _METRIC, "start_year": _YEAR, "end_year": _YEAR},
    ),
    _tool(
        "db_top_k",
        f"Read the k banks with the largest market value in a year from the database, in {UNIT}.",
        {"year": _YEAR, "k": {"type": "integer", "minimum": 1, "maximum": len(BANKS)}},
    ),
    _tool(
        "web_search",
        "Search public web pages, for what the database does not hold. Figures may be rounded, undated or old.",
        {"query": {"type": "string", "minLength": 3}},
    ),
    _tool(
        "calculator",
        "Compute an arithmetic expression of numbers; names are not accepted. Two decimals.",
        {"expression": {"type": "string", "pattern": r"^[0-9+\-*/(). ]+$"}},
    ),
    _tool(
        "make_chart",
        "Draw a chart of [label, value] points.",
        {
            "kind": {"enum": ["line", "bar"]},
            "title": {"type": "string"},
            "points": {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 2, "maxItems": 2}},
        },
    ),
)
"""What the planner's LLM span shows under `tools`."""


@dataclass(frozen=True)
class ToolResult:
    """`output` is None where the schema rejected the call; `error` then says why."""

    output: dict[str, JSON] | None
    error: str | None = None


class Toolbox:
    """The tools over the database and the web of one world."""

    def __init__(self, world: World) -> None:
        from jsonschema import Draft202012Validator

        self._validators = {tool["name"]: Draft202012Validator(tool["inputSchema"]) for tool in TOOLS}
        self._world = world
        self._run: dict[str, Callable[[Mapping[str, JSON]], dict[str, JSON]]] = {
            "db_lookup": self._lookup,
            "db_series": self._series,
            "db_top_k": self._top_k,
            "web_search": self._search,
            "calculator": lambda arguments: {"value": calculate(arguments["expression"])},
            "make_chart": lambda arguments: {"chart": "chart-1", "points": len(arguments["points"])},
        }

    def call(self, tool: str, arguments: Mapping[str, JSON]) -> ToolResult:
        violation = next(iter(self._validators[tool].iter_errors(dict(arguments))), None)
        if violation is not None:
            where = "/".join(map(str, violation.absolute_path)) or "arguments"
            return ToolResult(None, f"the schema of {tool} rejects the call: {where}: {violation.message}")
        return ToolResult(self._run[tool](arguments))

    def _lookup(self, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        entity = arguments["entity"]
        if arguments["metric"] != metric_of(entity):
            return {"value": None, "note": "no such record"}
        return {"value": self._world.database(entity, arguments["year"]), "unit": UNIT}

    def _series(self, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        start, end = arguments["start_year"], arguments["end_year"]
        return {"rows": series(self._world.database, arguments["entity"], start, end), "unit": UNIT}

    def _top_k(self, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        return {"rows": top_banks(self._world.database, arguments["year"], arguments["k"]), "unit": UNIT}

    def _search(self, arguments: Mapping[str, JSON]) -> dict[str, JSON]:
        fact = parse_query(arguments["query"])
        return {"snippet": self._world.web(*fact) if fact else "Nothing found."}


def value_of(tool: str, output: JSON) -> JSON:
    """What a careful reader records of a tool's output; None where it holds nothing to record."""
    if not isinstance(output, dict):
        return None
    if tool != "web_search":
        return output.get({"db_series": "rows", "db_top_k": "rows", "make_chart": "chart"}.get(tool, "value"))
    words = str(output.get("snippet")).removesuffix(f" {UNIT}.").split(" ")
    try:
        return float(words[-1])
    except ValueError:
        return None


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def calculate(expression: str) -> float:
    """The value of `+ - * /` arithmetic, rounded to two decimals."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp):
            return -value(node.operand)
        assert isinstance(node, ast.Constant)
        return float(node.value)  # type: ignore[arg-type]

    return round(value(ast.parse(expression, mode="eval").body), 2)
