"""An editor with two subagents, a critic of its own, and one bill.

    python examples/subagents.py

Both researchers work at the same time, each in a session of its own. The editor's first text is sent back by the critic
for naming no source. (The models are scripts; put real drivers in their place and nothing else changes.)
"""

import asyncio

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.hooks import Critique, SelfCritic
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import SpawnSubagent, Subagent

__all__ = ["editor", "names_a_source", "shelf"]

SHELF = {"almanac": "Tea is grown on hills.", "ledger": "Three packets were sold."}


@tool(effect=ToolEffect.READ)
def shelf(book: str) -> str:
    """Read a book."""
    return SHELF[book]


def names_a_source(task: str, answer: str) -> Critique:
    """Approve what names a book of the shelf."""
    named = any(book in answer for book in SHELF)
    return Critique(approved=named, feedback="" if named else f"Name a source. The task was: {task}")


def researcher(book: str) -> Agent:
    """Return an agent that reads one book."""
    model = ScriptedModel([call("shelf", book=book), f"{SHELF[book]} (the {book})"])
    return AgentBuilder(f"reader of the {book}").with_model(model).with_tools(shelf).build()


def editor() -> Agent:
    """Return the agent that asks the others."""
    staff = SpawnSubagent(
        {
            "botanist": Subagent(agent=researcher("almanac"), description="Knows plants."),
            "accountant": Subagent(agent=researcher("ledger"), description="Knows numbers."),
        }
    )
    wanted = calls(
        ("spawn_subagent", {"subagent": "botanist", "prompt": "Where is tea grown?"}),
        ("spawn_subagent", {"subagent": "accountant", "prompt": "How much of it was sold?"}),
    )
    script: list[Reply] = [
        wanted,
        "Tea is grown on hills and sells.",
        "Tea is grown on hills, says the almanac, and sells.",
    ]
    return (
        AgentBuilder("editor")
        .with_model(ScriptedModel(script))
        .with_tools(staff)
        .with_capability(SelfCritic(names_a_source))
        .build()
    )


async def main() -> None:
    """Ask once, and show the tree."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(editor(), "Write a line about tea.", session="tea")
        print(result.output)
        for depth, each in (await trail.tree("tea")).walk():
            print(f"{'  ' * depth}{each.run.name}: {each.own_usage.total} tokens, {each.usage.total} with those below")


if __name__ == "__main__":
    asyncio.run(main())
