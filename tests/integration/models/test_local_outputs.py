"""The real small model answers in a type whose fields are bounded: whatever it says, it fits the type."""

from collections.abc import AsyncGenerator
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.infrastructure.models.llama_server import LlamaServer
from steptrail.live import LiveUpdate, OutputPartial
from steptrail.messages import Message, ToolCallPart
from steptrail.models import LocalModel
from steptrail.output import OutputMode


class Order(BaseModel):
    drink: Literal["tea", "coffee"]
    size: Annotated[str, Field(max_length=5)]
    cups: Annotated[int, Field(ge=1, le=9)]


@tool(effect=ToolEffect.READ)
def menu(drink: Literal["tea", "coffee"]) -> str:
    """Look a drink up on the menu."""
    return f"{drink}: small or large"


@pytest.fixture
async def model(local_server: LlamaServer) -> AsyncGenerator[LocalModel]:
    local = LocalModel()
    yield local
    await local.close()


def example(number: int, drink: str) -> list[Message]:
    call = ToolCallPart(id=f"example{number}", name="menu", arguments={"drink": drink})
    return [
        Message.user(f"Is there {drink}?"),
        Message.assistant(tool_calls=(call,)),
        Message.tool(call.id, call.name, f"{drink}: small or large"),
        Message.assistant(f"Yes, {drink} is small or large."),
    ]


async def test_a_bounded_schema_is_filled_in_and_the_partial_answers_grow(model: LocalModel) -> None:
    agent = AgentBuilder("waiter").with_model(model).with_output(Order).build()
    seen: list[LiveUpdate] = []
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "Two large cups of coffee, please.", on_update=seen.append)
    assert agent.snapshot.output is not None
    assert agent.snapshot.output.mode is OutputMode.NATIVE
    assert isinstance(result.output, Order)
    partials = [len(str(update.partial)) for update in seen if isinstance(update, OutputPartial)]
    assert partials == sorted(partials)
    assert [update.partial for update in seen if isinstance(update, OutputPartial)][-1] == result.output.model_dump()


async def test_the_last_call_answers_in_the_type_after_a_real_call_of_a_tool(model: LocalModel) -> None:
    builder = AgentBuilder("waiter").with_model(model).with_tools(menu).with_system_prompt("You take orders.")
    agent = builder.with_examples(*example(1, "tea"), *example(2, "coffee")).with_output(Order).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "Is there tea?")
    assert agent.snapshot.output is not None
    assert agent.snapshot.output.mode is OutputMode.LAST
    assert [call.name for step in result.state.steps for call in step.tool_executions] == ["menu"]
    assert isinstance(result.output, Order)


async def test_alone_the_tool_of_the_answer_is_called(model: LocalModel) -> None:
    agent = AgentBuilder("waiter").with_model(model).with_output(Order, mode="tool").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "Two large cups of coffee, please.")
    assert isinstance(result.output, Order)
