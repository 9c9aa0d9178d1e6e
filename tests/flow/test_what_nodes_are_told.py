"""What the code of nodes is told of its run: the context and the resources."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from steptrail import Message, Steptrail, ToolContext, ToolEffect, tool
from steptrail.errors import InvalidWorkflow
from steptrail.workflow import (
    Artifact,
    Check,
    Envelope,
    FailureClass,
    NodeContext,
    Update,
    Workflow,
    check_flow,
)


class Caller(BaseModel):
    tenant: str


class Shop:
    """What is open for a run."""


@tool(effect=ToolEffect.READ)
async def tenant(context: ToolContext[Caller]) -> str:
    """Tell whose run it is."""
    return context.data.tenant


@tool(effect=ToolEffect.READ)
async def shop(context: ToolContext[Any, Shop]) -> str:
    """Look into the shop."""
    return type(context.resources).__name__


async def test_a_tool_that_names_the_type_of_its_context_gets_a_value_of_it() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(Workflow("t").tool("a", tenant).build(), context={"tenant": "acme"})
    assert (result.error, result.output) == (None, "acme")


@pytest.mark.parametrize(
    ("context", "why"),
    [
        (None, "Input should be an object"),
        ({"tenant": 7}, "tenant: Input should be a valid string"),
    ],
)
async def test_a_context_that_does_not_fit_its_tool_fails_the_node_once(context: object, why: str) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(Workflow("t").tool("a", tenant).build(), context=context)
    assert result.error is not None
    assert (result.error.failure, result.error.attempt) == (FailureClass.CONFIG, 1)
    assert result.error.message == f"what is said of this run does not fit Caller: {why}"


async def test_a_tool_whose_type_no_context_can_have_fails_its_node_once() -> None:
    @tool(effect=ToolEffect.READ)
    async def odd(context: ToolContext[Shop]) -> None:
        """Read the context."""

    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(Workflow("t").tool("a", odd).build(), context={"tenant": "acme"})
    assert result.error is not None
    assert (result.error.failure, result.error.attempt) == (FailureClass.CONFIG, 1)
    assert result.error.message.startswith("no context can be of the type Shop: ")


async def test_what_a_function_does_to_the_context_changes_nothing() -> None:
    def spoil(_: Envelope, context: NodeContext) -> None:
        assert isinstance(context.context, dict)
        context.context["tenant"] = "spoilt"

    def read(_: Envelope, context: NodeContext) -> object:
        return context.context

    flow = Workflow("t").function("spoil", spoil).function("read", read).chain("spoil", "read").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(flow, context={"tenant": "acme"})).output == {"tenant": "acme"}


def test_a_tool_that_reads_resources_is_refused_where_none_are_opened() -> None:
    with pytest.raises(InvalidWorkflow, match="FL-116") as refused:
        Workflow("t").noop("begin").tool("look", shop).chain("begin", "look").build()
    (found,) = refused.value.diagnostics
    assert str(found) == (
        "FL-116 nodes[1]: look: its tool reads resources, and the workflow opens none "
        "(call `with_resources`, or name what opens them under `resources` in a file)"
    )
    text = "steptrail: flow/v1\nname: t\nnodes:\n  - {id: look, kind: tool, use: shop}\n"
    assert [(each.code, each.line) for each in check_flow(text, {"shop": shop})] == [("FL-116", 4)]


async def test_a_map_whose_tool_reads_resources_gets_what_the_workflow_opens() -> None:
    @asynccontextmanager
    async def opened(_: object) -> AsyncGenerator[Shop]:
        yield Shop()

    mapped = Workflow("t").map("look", over="input", tool=shop)
    with pytest.raises(InvalidWorkflow, match="FL-116"):
        mapped.build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(mapped.with_resources(opened).build(), [1])).output == ["Shop"]


def spoil_rows(rows: list[dict[str, int]]) -> list[int]:
    return [row.pop("n") for row in rows]


def spoil_row(row: dict[str, int]) -> bool:
    return row.pop("n") > 1


@pytest.mark.parametrize(
    "flow",
    [
        Workflow("t").transform("spoil", "expr", source="input", expression=spoil_rows),
        Workflow("t").filter("spoil", "expression", over="input", expression=spoil_row),
        Workflow("t").guardian("spoil", [Check("expr", "input", when=spoil_rows)]),
    ],
    ids=["transform", "filter", "guardian"],
)
async def test_what_a_function_that_computes_does_to_a_value_changes_nothing(flow: Workflow) -> None:
    given = [{"n": 1}, {"n": 2}]
    built = flow.function("read", lambda envelope: envelope.input).chain("spoil", "read").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(built, given)).output == given


@pytest.mark.parametrize(
    ("update", "named"),
    [
        (Update(1, set={"total": 1}), "set"),
        (Update(1, unset=("total",)), "unset"),
        (Update(1, messages=(Message.user("x"),)), "messages"),
        (Update(1, artifacts=(Artifact(id="a"),)), "artifacts"),
    ],
)
async def test_an_item_of_a_map_that_brings_more_than_its_output_fails(update: Update, named: str) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(Workflow("t").map("each", over="input", function=lambda _: update).build(), [1])
        plain = await trail.run(Workflow("t").map("each", over="input", function=lambda _: Update(1)).build(), [1])
    assert result.error is not None
    assert result.error.failure is FailureClass.VALIDATION
    assert f"its `Update` brings {named}: let the node after the map add them" in result.error.message
    assert plain.output == [1]


async def test_the_errors_of_items_come_in_the_order_of_their_list_whichever_was_first() -> None:
    second = asyncio.Event()

    async def fail(envelope: Envelope) -> None:
        if envelope.item == "a":
            await second.wait()
        second.set()
        raise RuntimeError(envelope.item)

    flow = (
        Workflow("t")
        .map("each", over="input", function=fail, concurrency=2, on_item_error="record")
        .function("read", lambda envelope: [error.item for error in envelope.errors])
        .chain("each", "read")
        .build()
    )
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, ["a", "b"], session="f")
        assert (await trail.flow("f").state()).output == result.output
    assert result.output == [0, 1]
