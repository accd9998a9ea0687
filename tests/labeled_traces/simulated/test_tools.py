"""Six tools: their schemas are enforced before a call is executed, and they read the database and the web."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeled_traces.simulated.tools import TOOLS, Toolbox, calculate, value_of
from labeled_traces.simulated.world import build_world
from labeled_traces.trace import JSON

WORLD = build_world(0)
TOOLBOX = Toolbox(WORLD)


def test_the_six_tools_are_described_as_mcp_does() -> None:
    names = ["db_lookup", "db_series", "db_top_k", "web_search", "calculator", "make_chart"]
    assert [tool["name"] for tool in TOOLS] == names
    assert all(set(tool) == {"name", "description", "inputSchema"} for tool in TOOLS)
    assert json.loads(json.dumps(TOOLS)) == list(TOOLS)


@pytest.mark.parametrize(
    ("tool", "arguments", "where"),
    [
        ("db_lookup", {"entity": "Velmar", "metric": "gdp", "year": "2024"}, "year"),
        ("db_lookup", {"entity": "Velmar", "metric": "gdp", "year": 2025}, "year"),
        ("db_lookup", {"entity": "Atlantis", "metric": "gdp", "year": 2024}, "entity"),
        ("db_lookup", {"entity": "Velmar", "year": 2024}, "'metric' is a required property"),
        ("db_series", {"entity": "Velmar", "metric": "gdp", "start_year": 2020, "end_year": "2024"}, "end_year"),
        ("db_top_k", {"year": 2024, "k": 9}, "k"),
        ("web_search", {"q": "GDP of Velmar in 2024"}, "'query' is a required property"),
        ("calculator", {"expression": "v1 - v2"}, "expression"),
        ("make_chart", {"kind": "line", "title": "x", "points": "v1"}, "points"),
        ("make_chart", {"kind": "pie", "title": "x", "points": [["2020", 1.0]]}, "kind"),
    ],
)
def test_a_call_that_the_schema_rejects_is_not_executed(tool: str, arguments: dict[str, JSON], where: str) -> None:
    result = TOOLBOX.call(tool, arguments)
    assert result.output is None
    assert result.error is not None
    assert result.error.startswith(f"the schema of {tool} rejects the call: ")
    assert where in result.error


def test_the_database_tools_read_the_database() -> None:
    lookup = TOOLBOX.call("db_lookup", {"entity": "Velmar", "metric": "gdp", "year": 2021})
    assert lookup.output == {"value": WORLD.database("Velmar", 2021), "unit": "USD bn"}
    span = {"entity": "Velmar", "metric": "gdp", "start_year": 2021, "end_year": 2023}
    rows = TOOLBOX.call("db_series", span).output
    assert rows is not None
    assert rows["rows"] == [[str(year), WORLD.database("Velmar", year)] for year in (2021, 2022, 2023)]
    top = TOOLBOX.call("db_top_k", {"year": 2023, "k": 2}).output
    assert top is not None
    assert len(top["rows"]) == 2


def test_a_metric_that_an_entity_does_not_have_is_no_record() -> None:
    output = TOOLBOX.call("db_lookup", {"entity": "Velmar", "metric": "market_value", "year": 2021}).output
    assert output == {"value": None, "note": "no such record"}


def test_the_web_answers_queries_about_one_figure_only() -> None:
    output = TOOLBOX.call("web_search", {"query": "GDP of Velmar in 2021"}).output
    assert output == {"snippet": WORLD.web("Velmar", 2021)}
    assert TOOLBOX.call("web_search", {"query": "weather"}).output == {"snippet": "Nothing found."}


@pytest.mark.parametrize(
    ("tool", "output", "value"),
    [
        ("db_lookup", {"value": 48.1, "unit": "USD bn"}, 48.1),
        ("db_series", {"rows": [["2020", 1.5]]}, [["2020", 1.5]]),
        ("make_chart", {"chart": "chart-1", "points": 3}, "chart-1"),
        ("web_search", {"snippet": "The GDP of Velmar in 2021 was about 48 USD bn."}, 48.0),
        ("web_search", {"snippet": "The latest known GDP of Velmar is 46.2 USD bn."}, 46.2),
        ("web_search", {"snippet": "Nothing found."}, None),
        ("web_search", {}, None),
        ("db_lookup", "48.1", None),
        ("unknown", None, None),
    ],
)
def test_what_a_careful_reader_records(tool: str, output: JSON, value: JSON) -> None:
    assert value_of(tool, output) == value


def test_calculate_knows_precedence_signs_and_parentheses() -> None:
    assert calculate("(530.1 - 512.3) / 512.3 * 100") == 3.47
    assert calculate("2 + 3 * -4") == -10.0
    with pytest.raises(KeyError):
        calculate("2 ** 3")


@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4))
def test_calculate_rounds_to_two_decimals(a: float, b: float) -> None:
    assert calculate(f"{a:.3f} - {b:.3f}") == round(float(f"{a:.3f}") - float(f"{b:.3f}"), 2)
