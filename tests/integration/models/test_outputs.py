"""An answer in a type over each protocol: what is sent for each mode, and that the provider would take all of it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ConfigurationError
from steptrail.live import LiveUpdate
from steptrail.models import AnthropicModel, LocalModel, OpenAIModel, OpenAIResponsesModel
from steptrail.output import OutputMode, OutputModeName
from steptrail.runtime.agent.result import RunResult
from steptrail.testing.model_script import ScriptedReply, answer, tool_calls
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import DRIVERS, driver_of

every_protocol = pytest.mark.parametrize("protocol", DRIVERS)


class Line(BaseModel):
    name: Annotated[str, Field(max_length=20)]
    cents: Annotated[int, Field(ge=0)] = 0


class Invoice(BaseModel):
    """What is to be paid."""

    number: str
    kind: Literal["goods", "work"] = "goods"
    lines: list[Line] = []


GOOD: dict[str, JsonValue] = {"number": "7", "kind": "work", "lines": [{"name": "tea", "cents": 3}]}
TEXT = '{"number": "7", "kind": "work", "lines": [{"name": "tea", "cents": 3}]}'
STRICT: JsonValue = {
    "$defs": {
        "Line": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 20},
                "cents": {"type": "integer", "minimum": 0},
            },
            "required": ["name", "cents"],
            "additionalProperties": False,
        }
    },
    "type": "object",
    "description": "What is to be paid.",
    "properties": {
        "number": {"type": "string"},
        "kind": {"type": "string", "enum": ["goods", "work"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
    },
    "required": ["number", "kind", "lines"],
    "additionalProperties": False,
}


@tool(effect=ToolEffect.READ)
def stock(name: str) -> int:
    """Look up the stock."""
    return len(name)


async def played(
    protocol: str,
    typed_server: ModelServer,
    mode: OutputModeName,
    script: Sequence[ScriptedReply],
    *,
    tools: bool = False,
    seen: list[LiveUpdate] | None = None,
    parameters: Mapping[str, JsonValue] | None = None,
) -> tuple[RunResult[Invoice], list[dict[str, JsonValue]]]:
    """Return the result of a run, and the bodies of its requests."""
    typed_server.play(script)
    driver = driver_of(protocol, typed_server, parameters=parameters)
    builder = AgentBuilder("clerk").with_model(driver).with_tools(*([stock] if tools else []))
    agent = builder.with_output(Invoice, mode=mode).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        try:
            result = await trail.run(agent, "go", on_update=seen.append if seen is not None else None)
        finally:
            await driver.close()
    return result, [dict(request.body) for request in typed_server.requests()]


def form_in(body: Mapping[str, JsonValue]) -> JsonValue:
    """Return the schema to which the provider is to keep, wherever the protocol has it."""
    match body:
        case (
            {"response_format": {"json_schema": form}}
            | {"text": {"format": form}}
            | {"output_config": {"format": form}}
        ):
            return form
        case _:
            return None


@every_protocol
async def test_native_sends_the_schema_as_the_protocol_takes_it(protocol: str, typed_server: ModelServer) -> None:
    result, (body,) = await played(protocol, typed_server, "native", [answer(TEXT)])
    assert result.output == Invoice.model_validate(GOOD)
    form = form_in(body)
    assert isinstance(form, dict)
    if protocol == "anthropic":
        assert form["type"] == "json_schema"
        assert "maxLength" not in str(form["schema"]).replace("(maxLength: 20)", "")
        assert "(minimum: 0)" in str(form["schema"])
        return
    assert (form["name"], form["strict"], form["schema"]) == ("final_result", True, STRICT)
    assert ("response_format" in body) == (protocol == "chat")
    assert "tools" not in body


@every_protocol
async def test_tool_offers_one_more_tool_and_forces_it_where_it_is_alone(
    protocol: str, typed_server: ModelServer
) -> None:
    result, (body,) = await played(protocol, typed_server, "tool", [tool_calls(("final_result", GOOD))])
    assert result.output == Invoice.model_validate(GOOD)
    assert result.state.steps[0].has_tool_calls is False
    choice = body["tool_choice"]
    assert choice == ({"type": "any"} if protocol == "anthropic" else "required")
    assert form_in(body) is None
    told = str(body["tools"])
    assert "'name': 'final_result'" in told
    assert "'strict': True" in told


@every_protocol
async def test_tool_leaves_the_choice_to_the_model_beside_other_tools(protocol: str, typed_server: ModelServer) -> None:
    script = [tool_calls(("stock", {"name": "tea"})), answer("It is 3."), tool_calls(("final_result", GOOD))]
    result, bodies = await played(protocol, typed_server, "tool", script, tools=True)
    assert result.output == Invoice.model_validate(GOOD)
    assert [step.output_verdict for step in result.state.steps] == [None, "rejected", "accepted"]
    free = {"type": "auto"} if protocol == "anthropic" else "auto"
    assert [body["tool_choice"] for body in bodies] == [free] * 3
    assert "answer by calling final_result" in str(bodies[-1])


async def test_a_model_that_thinks_is_not_forced(typed_server: ModelServer) -> None:
    thinking: dict[str, JsonValue] = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    _, (body,) = await played(
        "anthropic", typed_server, "tool", [tool_calls(("final_result", GOOD))], parameters=thinking
    )
    assert body["tool_choice"] == {"type": "auto"}


@every_protocol
async def test_prompted_says_the_schema_and_takes_the_fences_away(protocol: str, typed_server: ModelServer) -> None:
    result, (body,) = await played(protocol, typed_server, "prompted", [answer(f"```json\n{TEXT}\n```")])
    assert result.output == Invoice.model_validate(GOOD)
    assert form_in(body) is None
    assert "fits this JSON schema" in str(body)


@every_protocol
async def test_last_asks_for_the_answer_without_tools_after_a_line_of_the_user(
    protocol: str, typed_server: ModelServer
) -> None:
    script = [tool_calls(("stock", {"name": "tea"})), answer("I know it."), answer(TEXT)]
    result, bodies = await played(protocol, typed_server, "last", script, tools=True)
    assert result.output == Invoice.model_validate(GOOD)
    assert [form_in(body) is not None for body in bodies] == [False, False, True]
    # Messages wants the tools that a conversation has used.
    choices = [body.get("tool_choice") for body in bodies]
    assert choices[-1] == ({"type": "none"} if protocol == "anthropic" else None)
    assert "<output_request>" in str(bodies[-1])


@every_protocol
async def test_a_rejected_answer_is_told_in_the_fence_and_asked_for_again(
    protocol: str, typed_server: ModelServer
) -> None:
    result, bodies = await played(
        protocol, typed_server, "native", [answer('{"number": "7", "kind": "x"}'), answer(TEXT)]
    )
    assert result.output == Invoice.model_validate(GOOD)
    assert "<output_problem>kind: Input should be 'goods' or 'work'</output_problem>" in str(bodies[1])


def test_each_driver_says_which_modes_it_takes_and_the_best_one_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    schema: dict[str, JsonValue] = {"type": "object", "properties": {}}
    free: dict[str, JsonValue] = {"type": "object", "additionalProperties": {"type": "integer"}}
    chat, own = OpenAIModel("m", api_key="k"), OpenAIModel("m", base_url="http://127.0.0.1:1/v1")
    messages, regional = AnthropicModel("m", api_key="k"), OpenAIModel("m", base_url="https://eu.api.openai.com/v1")
    assert regional.output_modes(schema, with_tools=True)[0] is OutputMode.NATIVE
    assert chat.output_modes(schema, with_tools=True)[0] is OutputMode.NATIVE
    assert own.output_modes(schema, with_tools=False)[0] is OutputMode.NATIVE
    assert own.output_modes(schema, with_tools=True)[0] is OutputMode.LAST
    assert OutputMode.NATIVE not in own.output_modes(schema, with_tools=True)
    assert OpenAIResponsesModel("m", api_key="k").output_modes(schema, with_tools=True)[0] is OutputMode.NATIVE
    assert messages.output_modes(schema, with_tools=True)[0] is OutputMode.NATIVE
    assert messages.output_modes(free, with_tools=True)[0] is OutputMode.TOOL
    assert LocalModel().output_modes(schema, with_tools=False)[0] is OutputMode.NATIVE
    assert LocalModel().output_modes(schema, with_tools=True)[0] is OutputMode.LAST


def test_what_the_strict_subset_cannot_say_is_noted_or_refused() -> None:
    counts = TypeAdapter(dict[str, int])
    builder = AgentBuilder("clerk").with_model(OpenAIModel("m", api_key="k"))
    output = builder.with_output(counts).build().snapshot.output
    assert output is not None
    assert (output.mode, output.is_strict) == (OutputMode.NATIVE, False)
    assert output.note == "the root: fields of any name may stand there"
    with pytest.raises(ConfigurationError, match=r"cannot be asked for in the mode native: the root: fields of any"):
        builder.with_output(counts, mode="native").build()
    claude = AgentBuilder("clerk").with_model(AnthropicModel("m", api_key="k"))
    with pytest.raises(ConfigurationError, match=r"cannot be asked for in the mode native: the root: fields of any"):
        claude.with_output(counts, mode="native").build()
    compatible = AgentBuilder("clerk").with_model(OpenAIModel("m", base_url="http://127.0.0.1:1/v1")).with_tools(stock)
    beside_tools = compatible.with_output(Invoice, mode="native")
    with pytest.raises(ConfigurationError, match="its model takes last, tool, prompted beside tools, not native"):
        beside_tools.build()
