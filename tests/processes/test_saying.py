"""The same call again does nothing twice, whenever the one before was killed; and of what is said nothing is lost.

`STEPTRAIL_KILLS` and `STEPTRAIL_PAIRS` say how often: 1,000 and 100 take some minutes.
"""

import asyncio
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from steptrail.domain.agent.events import AgentEvent, ExecutionFinished, ExecutionStarted, MessagesAppended
from steptrail.domain.messages import Message
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.crash import Ledger
from steptrail.testing.scripted_model import ScriptedModel
from tests.harness.crash_audit import read_log
from tests.harness.store_urls import opened, with_short_leases
from tests.harness.worker_pool import WorkerPool
from tests.processes.agents.saying import Shop, buy, say_in_step

KILLS = int(os.environ.get("STEPTRAIL_KILLS", "12"))
PAIRS = int(os.environ.get("STEPTRAIL_PAIRS", "4"))


def said(events: Sequence[AgentEvent]) -> list[str]:
    texts: list[str] = []
    for event in events:
        match event:
            case ExecutionStarted(input=Message() as message):
                texts.append(message.text)
            case MessagesAppended(messages=messages):
                texts += [message.text for message in messages]
            case _:
                pass
    return texts


async def events_of(url: str, session: str) -> list[AgentEvent]:
    return [record.event for record in (await read_log(url, session)).records]


def test_the_same_call_without_a_key_after_any_kill_charges_once_in_one_execution(
    store_url: str, tmp_path: Path, pool: WorkerPool
) -> None:
    draw, url = random.Random(4), with_short_leases(store_url)  # noqa: S311 - chooses moments
    kills = number = 0
    while kills < KILLS:
        number += 1
        shop, session = Shop(url, Ledger(tmp_path / f"charged-{number}.jsonl")), f"order-{number}"
        began = time.monotonic()
        pool.run(buy, shop, f"warm-{number}", 0.0).answer()
        longest = time.monotonic() - began
        shop.ledger.path.unlink()
        for _ in range(5):
            worker = pool.start(buy, shop, session, longest / 2)
            time.sleep(draw.uniform(0.0, 1.5 * longest))
            worker.kill()
            kills += worker.end().code < 0
        asyncio.run(read_log(url, session))  # waits for what the last one held, where only time frees it
        assert pool.run(buy, shop, session, 0.0).answer() == "It is charged."
        events = asyncio.run(events_of(url, session))
        assert said(events) == ["Charge 5."], session
        assert len(shop.ledger.entries()) <= 1, session  # none where the outcome of a killed call is unknown


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "idle"])
async def test_of_two_messages_of_one_process_at_the_same_moment_both_are_said(store_url: str, *, is_new: bool) -> None:
    agent = AgentBuilder("chat").with_model(ScriptedModel(["Yes."] * 9)).build()
    async with Steptrail(Environment(store=opened(store_url))) as trail:
        for number in range(PAIRS):
            session = trail.session(f"chat-{number}")
            if not is_new:
                await session.send(agent, "Hello.")
            await asyncio.gather(*(session.send(agent, text) for text in ("a", "b")))
            events = [record.event for record in await session.events()]
            assert sorted(said(events)) == [*([] if is_new else ["Hello."]), "a", "b"]
            state = await session.state()
            assert (state.status, state.has_unanswered_input) == ("completed", False)


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "idle"])
def test_of_two_messages_of_two_processes_at_the_same_moment_both_are_said(
    store_url: str, tmp_path: Path, pool: WorkerPool, *, is_new: bool
) -> None:
    sessions = [f"chat-{number}" for number in range(PAIRS)]

    async def began() -> None:
        agent = AgentBuilder("chat").with_model(ScriptedModel(["Yes."])).build()
        async with Steptrail(Environment(store=opened(store_url))) as trail:
            for session in [] if is_new else sessions:
                await trail.session(session).send(agent, "Hello.")

    asyncio.run(began())
    steps = Ledger(tmp_path / "steps.jsonl")
    workers = [
        pool.start(say_in_step, store_url, name, other, sessions, steps) for name, other in (("a", "b"), ("b", "a"))
    ]
    for worker in workers:
        worker.end(600.0).answer()
    for session in sessions:
        expected = [*([] if is_new else ["Hello."]), f"a in {session}", f"b in {session}"]
        events = asyncio.run(events_of(store_url, session))
        assert (sorted(said(events)), events[-1].TYPE) == (sorted(expected), ExecutionFinished.TYPE)
