"""An agent that reads more than its model can hold: old steps are summarised, and the log keeps every page.

    python examples/long_run.py

The model is a script, so that this runs anywhere. It says how many tokens it was sent, as a provider does.
"""

import asyncio
from collections.abc import Sequence

from steptrail import AgentBuilder, Compaction, Message, Steptrail, ToolEffect, tool
from steptrail.events import ConversationCompacted
from steptrail.models import ModelReply, ModelRequest, Usage
from steptrail.testing import Reply, ScriptedModel, calls, say

__all__ = ["agent", "page"]

PAGES, WINDOW = 60, 4_000


@tool(effect=ToolEffect.READ)
def page(number: int) -> str:
    """Read a page of the archive."""
    return f"Page {number} says: " + "so it went on and on, " * 20


def sent(request: ModelRequest) -> Usage:
    """Return what a request takes, if a token has four characters."""
    characters = sum(len(message.text) + 20 for message in request.messages)
    return Usage(input=characters // 4, output=10)


def reads(number: int) -> Reply:
    """Return a reply that asks for a page."""

    def answer(request: ModelRequest) -> ModelReply:
        return calls(("page", {"number": number}), usage=sent(request))

    return answer


def summary(messages: Sequence[Message]) -> str:
    """Summarise the pages that were read; a model would say more. Without it, the model of the run is asked."""
    return f"{sum(message.is_tool() for message in messages)} more pages were read, and all went on and on."


def answers(request: ModelRequest) -> ModelReply:
    """Answer from what is left."""
    return say("It went on.", usage=sent(request))


agent = (
    AgentBuilder("reader")
    .with_model(ScriptedModel([*map(reads, range(1, PAGES + 1)), answers]))
    .with_tools(page)
    .with_max_steps(PAGES + 1)
    .with_max_tokens(None)
    .with_compaction(Compaction(window=WINDOW, keep_steps=4, summarizer=summary))
    .build()
)


async def main() -> None:
    """Read the whole archive."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "What does the archive say?", session="archive")
        steps = [step for step in result.state.steps if step.reply is not None]
        events = [record.event for record in await trail.session("archive").events()]
        done = [event for event in events if isinstance(event, ConversationCompacted)]
        print(f"{result.output} {len(steps)} steps, {len(result.state.messages)} messages in the log")
        print(f"{len(done)} compactions, {max(step.usage.input for step in steps):,} of {WINDOW:,} tokens at most")
        print((await trail.session("archive").why()).state.compacted)


if __name__ == "__main__":
    asyncio.run(main())
