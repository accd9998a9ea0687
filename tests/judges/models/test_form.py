"""Tests of the form of a request: what an endpoint does not take is found out, remembered and reported."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from judges.lm import LMError, LMReply, LMRequest
from judges.models.client import ModelClient

if TYPE_CHECKING:
    from tests.judges.conftest import NewClient
    from tests.judges.scripted_server import Answer, ScriptedServer

    Servers = type[ScriptedServer]

SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}


def ask(client: ModelClient, request: LMRequest) -> LMReply:
    return asyncio.run(client.complete(request))


def test_schema_is_sent_and_taken(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: '{"score": 3}') as server:
        ask(client, server.request(schema=SCHEMA))
    sent = server.bodies[0]["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["schema"] == SCHEMA
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["name"] == "reply"


def test_a_schema_goes_under_its_title(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: '{"score": 3}') as server:
        ask(client, server.request(schema={**SCHEMA, "title": "ResponseFormat"}))
    assert server.bodies[0]["response_format"]["json_schema"]["name"] == "ResponseFormat"


@pytest.mark.parametrize(
    ("refused", "first", "later"),
    [
        (("json_schema",), ["json_schema", "json_object"], "json_object"),
        (("json_schema", "json_object"), ["json_schema", "json_object", "text"], "text"),
    ],
)
@pytest.mark.parametrize(
    "refusal",
    [
        (400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
        (400, "Bad request"),
        (422, "body.response_format: extra fields not permitted"),
        (501, "not implemented"),
    ],
)
def test_a_reply_format_that_is_refused_falls_to_the_next_and_is_remembered(
    new_client: NewClient,
    scripted_server: Servers,
    refused: tuple[str, ...],
    first: list[str],
    later: str,
    refusal: tuple[int, str],
) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        if body.get("response_format", {}).get("type") in refused:
            return scripted_server.error(*refusal)
        return "{}"

    client = new_client(timeout=5.0, retries=0)
    with scripted_server(script) as server:
        assert ask(client, server.request(schema=SCHEMA)).text == "{}"
        assert server.formats == first
        ask(client, server.request(schema=SCHEMA, repeat=1))
        assert server.formats == [*first, later]
        assert [note.split(" takes ")[1] for note in client.adaptations] == [
            f"no reply format above {later}: replies are not bound to the schema"
        ]
        with scripted_server(script) as other:
            ask(client, other.request(schema=SCHEMA))
            assert other.formats == first, "what one endpoint refuses, another may take"


def test_a_server_that_crashes_on_a_schema_is_asked_without_it(new_client: NewClient, scripted_server: Servers) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        crashes = body.get("response_format", {}).get("type") == "json_schema"
        return scripted_server.error(500, "Internal Server Error") if crashes else "{}"

    client = new_client(timeout=5.0, retries=1, pause=0.001)
    with scripted_server(script) as server:
        assert ask(client, server.request(schema=SCHEMA)).text == "{}"
        assert server.formats == ["json_schema", "json_schema", "json_object"]


def test_a_format_that_has_worked_is_not_given_up_in_a_storm(client: ModelClient, scripted_server: Servers) -> None:
    boom = scripted_server.error(503, "busy")
    with scripted_server(scripted_server.in_turn("{}", boom, boom, boom, "{}")) as server:
        ask(client, server.request(schema=SCHEMA))
        with pytest.raises(LMError, match="busy"):
            ask(client, server.request(schema=SCHEMA, repeat=1))
        ask(client, server.request(schema=SCHEMA, repeat=2))
        assert set(server.formats) == {"json_schema"}


def test_a_schema_that_is_refused_for_itself_says_nothing_of_the_next(
    client: ModelClient, scripted_server: Servers
) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        schema = body.get("response_format", {}).get("json_schema", {}).get("schema", SCHEMA)
        if schema != SCHEMA:
            return scripted_server.error(400, "Invalid schema for response_format 'reply': too many enum values")
        return "{}"

    with scripted_server(script) as server:
        ask(client, server.request(schema={**SCHEMA, "title": "long"}))
        ask(client, server.request(schema=SCHEMA))
        assert server.formats == ["json_schema", "json_object", "json_schema"]


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (
            "temperature",
            "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is "
            "supported.",
        ),
        ("temperature", "`temperature` is deprecated for this model."),
        ("seed", "Unrecognized request argument supplied: seed"),
    ],
)
def test_a_parameter_that_is_refused_is_left_out_and_reported(
    new_client: NewClient, scripted_server: Servers, caplog: pytest.LogCaptureFixture, parameter: str, message: str
) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        return scripted_server.error(400, message) if parameter in body else "fine"

    client = new_client(timeout=5.0, retries=0)
    with scripted_server(script) as server, caplog.at_level(logging.WARNING):
        assert ask(client, server.request(seed=3, schema=SCHEMA)).text == "fine"
        ask(client, server.request(seed=3, schema=SCHEMA, repeat=1))
        note = f"openai/any-model at {server.endpoint} takes no {parameter}: it is left out"
        assert client.adaptations == [note]
        assert [record.getMessage() for record in caplog.records] == [note], "said once"
        assert [parameter in body for body in server.bodies] == [True, False, False]
        assert server.formats == ["json_schema"] * 3


def test_the_other_name_of_max_tokens(client: ModelClient, scripted_server: Servers) -> None:
    def script(body: dict[str, Any]) -> Answer | str:
        if "max_tokens" in body:
            return scripted_server.error(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.",
            )
        return "fine"

    with scripted_server(script) as server:
        ask(client, server.request())
        assert server.bodies[-1]["max_completion_tokens"] == 50


def test_a_model_that_litellm_knows_to_refuse_a_parameter(client: ModelClient, scripted_server: Servers) -> None:
    with scripted_server(lambda _: "fine") as server:
        assert ask(client, server.request(model="openai/o3")).text == "fine"
        (body,) = server.bodies
        assert "temperature" not in body
        assert body["max_completion_tokens"] == 50
        assert any("o3" in note and "no temperature" in note for note in client.adaptations)
