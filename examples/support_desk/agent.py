"""The agent of the support desk: its tools, who has to be asked, and what ends a run.

Reading is free. A refund is keyed: the effect id is a UNIQUE column of the payments, so a refund that a crash cut off
is made again and paid once. An e-mail is unsafe: nobody knows whether one that was cut off went out, so it is never
sent again, and the model is told.
"""

import asyncio
from typing import Annotated

from pydantic import Field

from examples.support_desk.shop import Row, Shop
from steptrail import Agent, AgentBuilder, ErrorPolicy, HookType, ToolContext, ToolEffect, tool
from steptrail.continuation import ContinuationDecision, ContinuationEvaluation
from steptrail.hooks import CallableHook, HookState, ToolNameMatcher
from steptrail.models import ModelDriver

__all__ = ["DeskTools", "ends_with_a_person", "large_refunds_are_approved", "support_agent"]

FREE_CENTS = 5000
"""What may be refunded without asking anybody."""

PROMPT = f"""
You answer tickets of a shop. Find the customer, look at what is late, and look at an order before you refund it.
Refund an order once and in full; more than {FREE_CENTS} cents are approved by a person, which is not your concern.
Tell the customer by e-mail. Hand over to a person what is about the law, and say no more then.
"""


class DeskTools:
    """What the desk can do. `slow` is how many seconds the bank takes to answer once it has paid."""

    def __init__(self, shop: Shop, slow: float = 0.0) -> None:
        self._shop, self._slow = shop, slow

    @tool(effect=ToolEffect.READ)
    def find_customer(self, name: str) -> list[Row]:
        """Find customers by a part of their name."""
        if not (found := self._shop.find_customers(name)):
            raise LookupError(f"no customer's name holds {name!r}: try a part of it")
        return found

    @tool(effect=ToolEffect.READ)
    def late_orders(self, customer: Annotated[int, Field(description="the customer's id")]) -> list[Row]:
        """List a customer's orders that should have been shipped by now."""
        return self._shop.late_orders(customer)

    @tool(effect=ToolEffect.READ)
    def order_details(self, order: int) -> Row:
        """Show an order and what is paid for it."""
        return self._shop.order(order)

    @tool(effect=ToolEffect.KEYED, max_calls=1)
    async def refund(self, order: int, cents: Annotated[int, Field(gt=0)], context: ToolContext) -> str:
        """Pay money back to the customer."""
        is_new = await asyncio.to_thread(self._shop.refund, order, cents, context.effect_id)
        if is_new:
            await asyncio.sleep(self._slow)
        return f"{cents} cents of order {order} " + ("refunded" if is_new else "had been refunded under this key")

    @tool(effect=ToolEffect.UNSAFE)
    def send_email(self, order: int, subject: str, body: str) -> str:
        """Write to the customer of an order."""
        recipient: str = self._shop.order(order)["email"]
        self._shop.send(recipient, subject, body)
        return f"sent to {recipient}"

    @tool(effect=ToolEffect.READ)
    def hand_over(self, reason: str) -> str:
        """Leave the ticket to a person."""
        return f"a person takes it from here: {reason}"


def large_refunds_are_approved(state: HookState) -> HookState:
    """Hold every refund that is not known to be a small one."""
    call = state.current_execution.tool_call
    cents = (call.arguments or {}).get("cents") if call else None
    # "9000" would be read as a number by the tool, so what is no number here is not taken for a small one.
    if isinstance(cents, int) and cents <= FREE_CENTS:
        return state
    return state.with_held_tool_call(f"more than {FREE_CENTS} cents")


def ends_with_a_person(state: HookState) -> HookState:
    """Vote against going on once the ticket was handed over."""
    made = state.current_execution.tool_execution
    if made is None or made.status != "completed":
        return state
    reason = str((made.arguments or {}).get("reason", ""))
    vote = ContinuationEvaluation.from_decision(
        criterion_class="HandedOver",
        decision=ContinuationDecision.FORBID,
        reason=f"A person takes over: {reason}",
        context={"step": state.current_execution.step_number},
    )
    return state.with_evaluation(vote)


def support_agent(model: ModelDriver, shop: Shop, *, slow: float = 0.0) -> Agent:
    """Return the agent."""
    tools = DeskTools(shop, slow)
    return (
        AgentBuilder("support-desk")
        .with_model(model)
        .with_system_prompt(PROMPT)
        .with_tools(
            tools.find_customer, tools.late_orders, tools.order_details, tools.refund, tools.send_email, tools.hand_over
        )
        .with_hook(HookType.PRE_TOOL_USE, CallableHook(large_refunds_are_approved), matcher=ToolNameMatcher("refund"))
        .with_hook(HookType.POST_TOOL_USE, CallableHook(ends_with_a_person), matcher=ToolNameMatcher("hand_over"))
        .with_max_steps(10)
        .with_max_tool_calls(15)
        .with_cumulative_timeout(600)
        .with_error_policy(ErrorPolicy.ignore_tool_errors())
        .build()
    )
