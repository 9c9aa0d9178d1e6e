"""What processes do that are killed and repeat the same call, or say something at the same moment as another."""

import asyncio
import time
from dataclasses import dataclass

from steptrail.domain.continuation.limits import Limits
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Ledger
from steptrail.testing.scripted_model import ScriptedModel, call
from tests.harness.store_urls import opened

_MOST_REPLIES = 1_000


@dataclass(frozen=True, slots=True)
class Shop:
    """A store, and the ledger of what was done in the outside world."""

    url: str
    ledger: Ledger

    def agent(self) -> Agent:
        """Return an agent that charges a card once, whatever it is asked, and says so."""

        @tool(effect=ToolEffect.UNSAFE)
        def charge(amount: int) -> str:
            """Charge the card."""
            self.ledger.write("charged", str(amount))
            return "charged"

        model = ScriptedModel([call("charge", amount=5), *["It is charged."] * _MOST_REPLIES])
        # However often it is killed, it is to come to its end.
        builder = AgentBuilder("shop").with_model(model).with_tools(charge)
        return builder.with_limits(Limits(max_unproductive_segments=10_000)).build()


def buy(shop: Shop, session: str, seconds: float) -> str | None:
    """Ask for one thing, without a key, and go on for a moment after that. For a process of its own."""

    async def bought() -> str | None:
        async with Steptrail(Environment(store=opened(shop.url))) as trail:
            result = await trail.run(shop.agent(), "Charge 5.", session=session)
            await asyncio.sleep(seconds)
            return result.output

    return asyncio.run(bought())


def say_in_step(url: str, name: str, other: str, sessions: list[str], steps: Ledger) -> None:
    """Say one thing in each of the sessions at the moment at which `other` does. For a process of its own."""

    async def said() -> None:
        agent = AgentBuilder("chat").with_model(ScriptedModel(["Yes."] * _MOST_REPLIES)).build()
        async with Steptrail(Environment(store=opened(url), worker=name)) as trail:
            for session in sessions:
                steps.write(name, session)
                while (other, session) not in {(entry.what, entry.effect) for entry in steps.entries()}:
                    time.sleep(0.001)
                await trail.session(session).send(agent, f"{name} in {session}", by=name)

    asyncio.run(said())
