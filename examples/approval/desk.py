"""The agent that asks, and where the examples of this folder keep things.

A refund is a file named after its effect id: made again after a crash it replaces itself.
"""

import argparse
import json
from pathlib import Path

from examples.common import choose_model, folder, tool_results
from steptrail import Agent, AgentBuilder, ToolContext, ToolEffect, tool
from steptrail.testing import Reply, call
from steptrail.tools import ApprovalRule

__all__ = ["desk", "parser_of", "store_of"]


def store_of(folder: Path) -> str:
    """Return the address of the store."""
    return f"sqlite:///{folder / 'runs.db'}"


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that knows the folder."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--folder", type=folder, default=Path("approval-desk"), help="for the store and the refunds")
    return parser


def desk(folder: Path, *, model: str | None = None, hours: float = 72.0) -> Agent:
    """Return an agent whose refunds a person has to approve within so many hours."""

    @tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=hours * 3600, reason="it moves money"))
    def refund(order: str, cents: int, context: ToolContext) -> str:
        """Refund an order."""
        place = folder / "refunds" / f"{context.effect_id.replace(':', '_')}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"order": order, "cents": cents}), encoding="utf-8")
        return f"{cents} cents of order {order} refunded"

    # The script repeats what the tool said: after a no that is who said no, and why.
    script: list[Reply] = [call("refund", order="A-7", cents=900), lambda request: tool_results(request, "refund")[-1]]
    return (
        AgentBuilder("refunds")
        .with_model(choose_model(model, script))
        .with_system_prompt("You refund orders, and tell in one sentence what became of it.")
        .with_tools(refund)
        .build()
    )
