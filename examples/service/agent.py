"""The agent that the service runs: it knows the shelf, and orders what is missing.

It knows for whom it works, speaks to a supplier that is opened for each run, and answers in a type. An order is a file
named after its effect id, so it is placed once however often the service dies over it. A large one waits for a person.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from examples.common import choose_model, tool_results
from steptrail import Agent, AgentBuilder, ErrorPolicy, HookType, ToolContext, ToolEffect, tool
from steptrail.hooks import CallableHook, HookState, ToolNameMatcher
from steptrail.models import ModelReply, ModelRequest
from steptrail.testing import Reply, call

__all__ = ["Customer", "ShopReply", "shop_agent"]

MOST_PACKETS = 10
SHELF = {"tea": 3, "coffee": 0}


class Customer(BaseModel):
    """For whom a run works. It is stored with the run, and there again after a crash."""

    name: str


class ShopReply(BaseModel):
    """What the customer is told, and how many packets were ordered."""

    said: Annotated[str, Field(max_length=500)]
    ordered: int = 0


class Supplier:
    """Where orders go. It is opened for each run and closed after it; nothing of it is stored.

    `slow` is how many seconds it takes to answer once it has taken an order.
    """

    def __init__(self, folder: Path, slow: float) -> None:
        self._folder, self._slow = folder, slow

    async def place(self, item: str, packets: int, context: ToolContext[Customer, "Supplier"]) -> None:
        """Take an order. The same effect id is the same order."""
        self._folder.mkdir(parents=True, exist_ok=True)
        place = self._folder / f"{context.effect_id.replace(':', '_')}.json"
        if not place.exists():
            written = place.with_suffix(".new")
            order = {"item": item, "packets": packets, "for": context.data.name}
            written.write_text(json.dumps(order), encoding="utf-8")
            written.replace(place)  # an order is there or it is not, whenever a kill comes
            context.progress("the supplier has it", done=1, total=2)
            await asyncio.sleep(self._slow)


@tool(effect=ToolEffect.KEYED)
async def order(item: str, packets: Annotated[int, Field(gt=0)], context: ToolContext[Customer, Supplier]) -> str:
    """Order packets of an item."""
    await context.resources.place(item, packets, context)
    return f"{packets} packets of {item} are ordered"


@tool(effect=ToolEffect.READ)
def stock(item: str) -> str:
    """Count what is left of an item."""
    return f"{SHELF.get(item, 0)} packets of {item} are on the shelf"


def large_orders_are_approved(state: HookState) -> HookState:
    """Hold every order that is not known to be a small one."""
    wanted = state.current_execution.tool_call
    packets = (wanted.arguments or {}).get("packets") if wanted else None
    if isinstance(packets, int) and packets <= MOST_PACKETS:
        return state
    return state.with_held_tool_call(f"more than {MOST_PACKETS} packets")


def speak(request: ModelRequest) -> str | ModelReply:
    """Play the model: a number in what the user says is an order, anything else a question."""
    last = request.messages[-1]
    if last.is_tool():
        orders = tool_results(request, "order")
        found = [*tool_results(request, "stock"), *orders][-1]
        packets = re.match(r"\d+", orders[-1]) if orders else None
        said = ShopReply(said=f"It is done as you asked: {found}.", ordered=int(packets[0]) if packets else 0)
        return said.model_dump_json()
    packets = re.search(r"\d+", last.text)
    return call("order", item="tea", packets=int(packets[0])) if packets else call("stock", item="tea")


def shop_agent(folder: Path, *, model: str | None = None, slow: float = 0.0) -> Agent[ShopReply, Customer]:
    """Return the agent; orders are kept in `folder`."""
    script: list[Reply] = [speak] * 1000

    @asynccontextmanager
    async def supplier(_: Customer) -> AsyncGenerator[Supplier]:
        # A real one opens a connection here, with a password that is nobody else's business.
        yield Supplier(folder, slow)

    return (
        AgentBuilder("shop")
        .with_model(choose_model(model, script))
        .with_system_prompt("You answer for a shop, and order what you are told to.")
        .with_context(Customer)
        .with_resources(supplier)
        .with_tools(stock, order)
        .with_hook(HookType.PRE_TOOL_USE, CallableHook(large_orders_are_approved), matcher=ToolNameMatcher("order"))
        .with_cumulative_timeout(600)
        .with_error_policy(ErrorPolicy.retry_all(3))
        .with_output(ShopReply)
        .build()
    )
