"""The schemas of tools, above all of those that tool servers describe, in the form that services take."""

from collections.abc import Callable, Mapping

import pytest

from steptrail.domain.inference import ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolSpec
from steptrail.infrastructure.models import anthropic_rendering, chat_rendering, responses_rendering
from steptrail.infrastructure.models.tool_schema import tool_schema
from steptrail.testing import model_request, model_request_anthropic, model_request_responses

TEXT: JsonValue = {"type": "string"}
PLAIN: dict[str, JsonValue] = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}


def of(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return tool_schema(ToolSpec(name="look", parameters=schema))


def test_a_schema_that_services_take_is_sent_as_it_is() -> None:
    assert list(of(PLAIN).items()) == list(PLAIN.items())


def test_a_tool_without_arguments_has_properties_all_the_same() -> None:
    assert of({}) == of({"type": "object"}) == {"type": "object", "properties": {}}


@pytest.mark.parametrize("rule", ["allOf", "anyOf", "oneOf"])
def test_rules_that_join_schemas_are_told_and_their_properties_are_taken_in(rule: str) -> None:
    branches: JsonValue = [{"properties": {"b": TEXT, "a": {"type": "integer"}}}, {"required": ["c"]}]
    given: dict[str, JsonValue] = {**PLAIN, "description": "Where.", rule: branches}
    assert of(given) == {
        "type": "object",
        "properties": {"b": TEXT, "a": TEXT},
        "required": ["a"],
        "description": f"Where. ({rule}: {branches})",
    }


def test_a_property_that_branches_have_in_several_forms_may_have_each_of_them() -> None:
    makes: dict[str, JsonValue] = {"properties": {"do": {"const": "make"}, "name": TEXT}}
    drops: dict[str, JsonValue] = {"properties": {"do": {"const": "drop"}, "name": TEXT}}
    given = of({"type": "object", "oneOf": [makes, drops]})
    assert given["properties"] == {"do": {"anyOf": [{"const": "make"}, {"const": "drop"}]}, "name": TEXT}


REFUSALS: dict[Callable[..., dict[str, JsonValue]], Callable[[Mapping[str, JsonValue]], str | None]] = {
    chat_rendering.render_request: model_request.why_refused,
    responses_rendering.render_request: model_request_responses.why_refused,
    anthropic_rendering.render_request: model_request_anthropic.why_refused,
}


@pytest.mark.parametrize("render", REFUSALS, ids=["chat", "responses", "messages"])
@pytest.mark.parametrize("schema", [{"type": "object"}, {**PLAIN, "oneOf": [{"required": ["a"]}]}, {"anyOf": [PLAIN]}])
def test_no_service_refuses_a_request_for_the_schema_of_a_tool(
    render: Callable[..., dict[str, JsonValue]], schema: dict[str, JsonValue]
) -> None:
    request = ModelRequest(messages=[Message.user("?")], tools=[ToolSpec(name="look", parameters=schema)])
    assert REFUSALS[render](render("m", request, {"max_tokens": 5})) is None
