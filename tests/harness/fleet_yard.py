"""What a fleet of workers is let loose on: sessions that fail now and then, ask a person, and write to a ledger."""

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from steptrail.domain.continuation.limits import Limits
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.tools import tool
from steptrail.infrastructure.tools.external import external_tool
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.waking import Waking
from steptrail.testing.crash import Ledger
from steptrail.testing.scripted_model import ScriptedModel, call, calls, say

AGENT: Final = "fleet"
LEASE_SECONDS: Final = 3.0
SIGNED: Final = "signed"
"""The result of the external call that is asked for beside an approval."""
_FAILS = 0.1
"""The part of the model's answers that fail."""
_MOST_REPLIES = 100_000


class Load(NamedTuple):
    """How many sessions there are, how many calls each makes, and how many seconds a call takes.

    A session begins every so many seconds. `is_durable` has commits wait for the disk, as they must where the server
    itself may die.
    """

    sessions: int
    seconds: float
    calls: int = 3
    every: float = 0.0
    is_durable: bool = False


@dataclass(frozen=True, slots=True)
class Yard:
    """The store, the ledger of all, what sessions do, the file that ends workers, and whether these are woken."""

    url: str
    ledger: Ledger
    load: Load
    end: Path
    is_woken: bool

    def trail(self) -> Steptrail:
        """Return a trail of the store, which wakes, and is woken, by an engine if that is so."""
        store = open_store(self.url, durability="full" if self.load.is_durable else "normal", busy_timeout=60.0)
        waking = Waking(store)
        if self.is_woken:
            waking.use(ProcrastinateEngine(self.url, heartbeat=0.5, stalled_after=LEASE_SECONDS))
        return Steptrail(Environment(store=store, waking=waking))

    def agent(self) -> Agent:
        """Return the agent; every process makes its own."""
        draw = random.Random()  # noqa: S311 - chooses requests

        def reply(request: ModelRequest) -> ModelReply:
            last = next(i for i, message in enumerate(reversed(request.messages)) if message.is_user())
            said = request.messages[len(request.messages) - last :]
            served = sum(message.is_tool() and message.text != SIGNED for message in said)
            asks = any(message.is_user() and message.text == "Pay." for message in request.messages)
            if draw.random() < _FAILS:
                raise ConnectionError("no line")
            if served == 0:
                return calls(("pay", {}), ("sign", {})) if asks else call("serve")
            return call("serve") if served < self.load.calls else say("Done.")

        async def act(context: ToolContext) -> str:
            self.ledger.write("began", context.effect_id)
            await asyncio.sleep(self.load.seconds)
            self.ledger.write("done", context.effect_id)
            return "done"

        @tool(effect=ToolEffect.IDEMPOTENT)
        async def serve(context: ToolContext) -> str:
            """Serve somebody."""
            return await act(context)

        @tool(effect=ToolEffect.IDEMPOTENT, approval=True)
        async def pay(context: ToolContext) -> str:
            """Pay somebody."""
            return await act(context)

        sign = external_tool("sign", "Sign for it.", {"type": "object", "properties": {}})
        model = ScriptedModel([reply] * _MOST_REPLIES)
        policy = ErrorPolicy.retry_all(20).with_backoff(Backoff.linear(0.3))
        limits = Limits(max_steps=None, max_tokens=None, longest_wait=0.1, max_unproductive_segments=1000)
        builder = AgentBuilder(AGENT).with_model(model).with_tools(serve, pay, sign).with_error_policy(policy)
        return builder.with_limits(limits).build()
