"""The smallest agent: one tool, one question, and the reason why it stopped.

    python examples/quickstart.py
    steptrail run examples/quickstart.py "How much tea is left?" --id tea-1

The model is a script, so that this runs anywhere. Put `OpenAIModel("gpt-5-mini")` or `LocalModel()` from
`steptrail.models` in its place for a real one; nothing else changes.
"""

import asyncio

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.testing import ScriptedModel, call

__all__ = ["agent", "stock"]

SHELF = {"tea": 3, "coffee": 0}


@tool(effect=ToolEffect.READ)
def stock(item: str) -> int:
    """Count what is left of an item."""
    return SHELF[item]


agent = (
    AgentBuilder("shop")
    .with_model(ScriptedModel([call("stock", item="tea"), "There are 3 packets of tea left."]))
    .with_system_prompt("You answer for the shop.")
    .with_tools(stock)
    .with_max_steps(5)
    .build()
)


async def main() -> None:
    """Ask once."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "How much tea is left?")
        print(result.output)
        print((await trail.session(result.session_id).why()).verdict)


if __name__ == "__main__":
    asyncio.run(main())
