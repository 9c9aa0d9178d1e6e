"""An agent that answers in a type: it looks things up first, is told what does not fit, and ends with a value.

    python examples/invoice.py
    steptrail run examples/invoice.py "What does order 7 come to?" --id invoice-7
    steptrail why invoice-7

The model is a script, so that this runs anywhere. Its first answer does not add up, and the validator says so.
"""

import asyncio

from pydantic import BaseModel

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.output import OutputContext, OutputRejected
from steptrail.testing import ScriptedModel, call

__all__ = ["Invoice", "Line", "agent", "prices"]

SHELF = {"tea": 350, "cups": 420}


class Line(BaseModel):
    """One thing that is to be paid."""

    name: str
    cents: int


class Invoice(BaseModel):
    """All that an order comes to."""

    lines: list[Line]
    total_cents: int


@tool(effect=ToolEffect.READ)
def prices(order: int) -> dict[str, int]:
    """Look up what an order holds, with the price of each thing in cents."""
    return SHELF


def adds_up(invoice: Invoice, context: OutputContext) -> Invoice:
    """Refuse a sum that is none."""
    total = sum(line.cents for line in invoice.lines)
    if invoice.total_cents != total:
        raise OutputRejected(f"the lines come to {total} cents, not to {invoice.total_cents}")
    return invoice


LINES = '"lines": [{"name": "tea", "cents": 350}, {"name": "cups", "cents": 420}]'

agent = (
    AgentBuilder("clerk")
    .with_model(
        ScriptedModel(
            [
                call("prices", order=7),
                "I have what I need.",
                f'{{{LINES}, "total_cents": 700}}',
                f'{{{LINES}, "total_cents": 770}}',
            ]
        )
    )
    .with_tools(prices)
    .with_output(Invoice, mode="last")
    .with_output_validator(adds_up)
    .build()
)


async def main() -> None:
    """Ask once."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "What does order 7 come to?")
        if result.output is not None:
            print(f"{len(result.output.lines)} lines, {result.output.total_cents} cents")
        for step in result.state.steps:
            if step.output_problems:
                print(f"step {step.number}: {step.output_problems[0]}")


if __name__ == "__main__":
    asyncio.run(main())
