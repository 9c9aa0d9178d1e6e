"""A scripted agent with three tools in one step, to be killed inside the second.

Reserving and notifying are declared unsafe: they are never repeated. Charging is declared keyed, and keeps what that
promises: the bank is handed the effect id and makes one payment for it, however often it is asked.
"""

import time
from pathlib import Path

from ledger import Ledger
from steptrail import Agent, AgentBuilder, ToolContext, ToolEffect, tool
from steptrail.testing import ScriptedModel, calls

__all__ = ["Bank", "OrderTools", "order_agent"]


class Bank:
    """A bank on the other side of the wire: it remembers its idempotency keys and outlives our process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pay(self, key: str, cents: int) -> str:
        """Make a payment, or find the one that was made for this key."""
        self._folder.mkdir(exist_ok=True)
        try:
            with (self._folder / key.replace(":", "_")).open("x", encoding="utf-8") as payment:
                payment.write(str(cents))
        except FileExistsError:
            return f"{cents} cents were charged before under this key"
        return f"{cents} cents charged"

    def payments(self) -> int:
        """Count the payments that were really made."""
        return len(list(self._folder.iterdir())) if self._folder.exists() else 0


class OrderTools:
    """What it takes to fulfil an order."""

    def __init__(self, ledger: Ledger, bank: Bank) -> None:
        self._ledger, self._bank = ledger, bank

    @tool(effect=ToolEffect.UNSAFE)
    def reserve(self, item: str, context: ToolContext) -> str:
        """Reserve an item in the warehouse."""
        self._ledger.write("reserve", context)
        return f"{item} reserved"

    @tool(effect=ToolEffect.KEYED)
    def charge(self, cents: int, context: ToolContext) -> str:
        """Charge the customer's card."""
        self._ledger.write("charge", context)
        receipt = self._bank.pay(context.effect_id, cents)
        if context.attempt == 1:
            # The worst moment for a crash: the money has moved and nobody has been told. The demo kills us here.
            time.sleep(60)
        return receipt

    @tool(effect=ToolEffect.UNSAFE)
    def notify(self, customer: str, context: ToolContext) -> str:
        """Tell the customer that the order is on its way."""
        self._ledger.write("notify", context)
        return f"{customer} notified"


def order_agent(ledger: Ledger, bank: Bank) -> Agent:
    """Return the agent. Its model is a script: what is shown is what becomes of the tools."""
    tools = OrderTools(ledger, bank)
    wanted = calls(("reserve", {"item": "tea"}), ("charge", {"cents": 450}), ("notify", {"customer": "Ana"}))
    return (
        AgentBuilder("orders")
        .with_model(ScriptedModel([wanted, "The tea is paid for and on its way."]))
        .with_tools(tools.reserve, tools.charge, tools.notify)
        .build()
    )
