"""Very many say something to one session, or answer it, at the same moment."""

import asyncio

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import ApprovalGranted, MessagesAppended
from steptrail.domain.kernel.record import Commit
from steptrail.domain.tools import ApprovalRule
from steptrail.errors import CommandRejected
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import calls
from tests.runner.kit import agent_of
from tests.trail.test_log_reader import Counting

MANY = 40


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule())
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


AGENT = agent_of([calls(*[("pay", {"amount": amount}) for amount in range(MANY)]), "Paid."]).with_tools(pay).build()


async def test_each_is_stored_once_at_the_first_try_and_one_read_tells_it_of_the_others() -> None:
    store, tries = Counting(), list[Commit]()

    async def noted(commit: Commit) -> None:
        tries.append(commit)

    async with Steptrail(Environment(store=store)) as trail:
        await trail.run(AGENT, "pay", session="s")
        store.before_append = noted
        await asyncio.gather(*[trail.session("s").post(AGENT, f"message {number}") for number in range(MANY)])
        events = [record.event for record in await trail.session("s").events()]
        said = [event.messages[0].text for event in events if isinstance(event, MessagesAppended)]
        assert sorted(said) == sorted(f"message {number}" for number in range(MANY))
        assert len(tries) == MANY
        store.asked.clear()
        asked = (await trail.session("s").state()).open_approvals
        await asyncio.gather(*[trail.session("s").approve(each.id, by="ana") for each in asked])
        assert len(tries) == 2 * MANY
        assert store.asked.count("agent:s") < 4 * MANY
        assert (await trail.session("s").state()).open_approvals == ()


async def test_what_is_refused_holds_up_nobody_behind_it(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(AGENT, "pay", session="s")
        approval = (await trail.session("s").state()).open_approvals[0].id
        answers = [trail.session("s").approve(approval, by=f"person {number}") for number in range(5)]
        first = asyncio.create_task(answers.pop(0))
        cancelled = asyncio.create_task(answers.pop(0))
        await asyncio.sleep(0)
        cancelled.cancel()
        refused = await asyncio.gather(*answers, return_exceptions=True)
        await asyncio.wait([first, cancelled])
        assert sum(isinstance(each, CommandRejected) for each in refused) >= len(refused) - 1
        events = [record.event for record in await trail.session("s").events()]
        assert sum(isinstance(event, ApprovalGranted) for event in events) == 1
        await trail.session("s").post(AGENT, "And?")
