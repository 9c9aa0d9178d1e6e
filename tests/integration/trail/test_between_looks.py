"""A commit between any two looks at the store that one operation takes: nothing is done on what it has not seen.

A rival comes once, before the n-th question that the operation puts to the database, for every n that there is. What he
did is stored when the operation goes on.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steptrail.domain.agent.events import ExecutionFinished, ToolExecutionStarted
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CommandRejected, OwnershipLost, SessionBusy
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.sync import SyncSession, SyncSteptrail
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import ScriptedModel, call
from steptrail.testing.crash import Ledger
from tests.harness.crash_audit import Log, read_log
from tests.harness.log_audit import LogAudit, audit_log
from tests.harness.store_moments import with_moments

REFUSALS = (CommandRejected, SessionBusy, OwnershipLost)
PROMPT = "Charge the card twice."

Act = Callable[[Session, Agent], Awaitable[object]]
Rival = Callable[[SyncSession, Agent], object]


@pytest.fixture(autouse=True)
def nobody_waits_for_one_who_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rival's message wait no longer than other commands do: whom it waits for goes on when it has given up."""
    monkeypatch.setattr("steptrail.runtime.agent.control._LOOKS_OF_A_SENDER", 2)


class Died(BaseException):
    """What a process does that is killed, as far as its session can tell."""


@dataclass
class Scene:
    """One session, and the ledger of what its tools did and of who was told that something is done."""

    url: str
    name: str
    ledger: Ledger
    looks: int = 0
    before_the_rival: int = 0
    refused: set[str] = field(default_factory=set[str])
    accepted: set[str] = field(default_factory=set[str])

    def agent(self, *, approval: bool = False) -> Agent:
        @tool(effect=ToolEffect.UNSAFE, approval=approval)
        def charge(context: ToolContext) -> str:
            """Charge the card."""
            self.ledger.write("began", context.effect_id)
            return "charged"

        script = ScriptedModel([call("charge"), call("charge"), "Paid."])
        return AgentBuilder("till").with_model(script).with_tools(charge).build()

    async def perform(self, act: Act, agent: Agent, rival: Rival, other: SyncSession, before: int) -> None:
        """Act, and have the rival come in before that look."""

        def moment(what: str) -> None:
            del what
            self.looks += 1
            if self.looks == before:
                self.before_the_rival = len(other.events())
                try:
                    rival(other, agent)
                except REFUSALS:
                    self.refused.add("rival")
                else:
                    self.accepted.add("rival")

        store = with_moments(open_store(self.url), moment)
        # The rival blocks the thread that asks, which must not be that of the loop.
        vars(store)["_quick"] = 0
        async with Steptrail(Environment(store=store, worker="first")) as trail:
            try:
                await act(trail.session(self.name), agent)
            except REFUSALS:
                self.refused.add("first")
            else:
                self.accepted.add("first")

    def log(self) -> Log:
        return asyncio.run(read_log(self.url, self.name))

    def found(self) -> LogAudit:
        return audit_log(self.log().records, self.ledger.entries())

    def charged(self) -> int:
        return self.ledger.counts()["began"]


def at_each_look(
    url: str, folder: Path, *, given: Callable[[SyncSteptrail, Scene], Agent], act: Act, rival: Rival
) -> Iterator[Scene]:
    """Yield a new scene after the operation, once for each look that the rival can come before."""
    with Steptrail.open_sync(url) as other:
        before = 0
        while True:
            before += 1
            scene = Scene(url, f"s{before}", Ledger(folder / f"s{before}.jsonl"))
            agent = given(other, scene)
            session = other.session(scene.name)
            asyncio.run(scene.perform(act, agent, rival, session, before))
            if scene.looks < before:
                assert before > 2, "the operation has hardly looked at anything"
                with suppress(*REFUSALS):  # he may have something of his own to bring to an end
                    rival(session, agent)
                return
            yield scene


def waiting_for_a_yes(other: SyncSteptrail, scene: Scene) -> Agent:
    agent = scene.agent(approval=True)
    other.run(agent, PROMPT, session=scene.name)
    return agent


def crashed_before_its_tool(other: SyncSteptrail, scene: Scene) -> Agent:
    def reach(point: str) -> None:
        if point == "before-append" and died:
            raise Died
        if point == "before-inference":
            died.append(True)

    del other
    died: list[bool] = []
    agent = scene.agent()

    async def die() -> None:
        async with Steptrail(Environment(store=open_store(scene.url), reach=reach)) as trail:
            with pytest.raises(Died):
                await trail.run(agent, PROMPT, session=scene.name)

    asyncio.run(die())
    return agent


def finished(other: SyncSteptrail, scene: Scene) -> Agent:
    agent = scene.agent()
    other.run(agent, PROMPT, session=scene.name)
    return agent


def what_is_asked(state: AgentState) -> str:
    """Return the id of the open approval, or refuse as somebody does who finds it answered."""
    for approval in state.open_approvals:
        return approval.id
    raise CommandRejected("answer", state.agent_id, "nothing is asked for any more")


async def approve(session: Session, agent: Agent) -> None:
    del agent
    await session.approve(what_is_asked(await session.state()), by="bob")


def deny(session: SyncSession, agent: Agent) -> None:
    del agent
    session.deny(what_is_asked(session.state()), by="ana")


def test_of_two_answers_to_one_approval_one_is_accepted(store_url: str, tmp_path: Path) -> None:
    for scene in at_each_look(store_url, tmp_path, given=waiting_for_a_yes, act=approve, rival=deny):
        assert scene.found().broken == 0, scene
        assert len(scene.accepted) == 1, scene


async def resume(session: Session, agent: Agent) -> None:
    await session.resume(agent)


def test_nothing_starts_after_a_stop_that_is_stored_before_or_while_a_run_goes_on(
    store_url: str, tmp_path: Path
) -> None:
    def stop(session: SyncSession, agent: Agent) -> None:
        del agent
        session.stop(by="ops")

    for scene in at_each_look(store_url, tmp_path, given=crashed_before_its_tool, act=resume, rival=stop):
        assert scene.found().broken == 0, scene
        if "rival" in scene.accepted:
            records = scene.log().records
            later = [record for record in records if record.version > scene.before_the_rival]
            assert not any(isinstance(record.event, ToolExecutionStarted) for record in later), scene
            assert records[-1].event.TYPE == "execution.finished.v1", scene


async def take_over(session: Session, agent: Agent) -> None:
    await session.resume(agent, take_over=True)


def test_of_two_take_overs_one_goes_on_and_no_unsafe_call_runs_twice(store_url: str, tmp_path: Path) -> None:
    def rival(session: SyncSession, agent: Agent) -> None:
        session.resume(agent, take_over=True)

    for scene in at_each_look(store_url, tmp_path, given=crashed_before_its_tool, act=take_over, rival=rival):
        assert scene.found().broken == 0, scene
        assert scene.charged() <= 2, scene
        assert any(isinstance(record.event, ExecutionFinished) for record in scene.log().records), scene


def test_nothing_that_two_say_at_once_is_lost(store_url: str, tmp_path: Path) -> None:
    async def say(session: Session, agent: Agent) -> None:
        await session.send(agent, "Says the first.")

    def rival(session: SyncSession, agent: Agent) -> None:
        session.send(agent, "Says the rival.")

    for scene in at_each_look(store_url, tmp_path, given=finished, act=say, rival=rival):
        assert scene.found().broken == 0, scene
        told = {"first": "Says the first.", "rival": "Says the rival."}
        said = [message.text for message in scene.log().messages if message.is_user()]
        assert sorted(said) == sorted([PROMPT, *(told[who] for who in scene.accepted)]), scene


def test_of_the_same_command_twice_one_is_carried_out(store_url: str, tmp_path: Path) -> None:
    async def again(session: Session, agent: Agent) -> None:
        await session.send(agent, "Once.", key="k")

    def rival(session: SyncSession, agent: Agent) -> None:
        session.send(agent, "Once.", key="k")

    for scene in at_each_look(store_url, tmp_path, given=finished, act=again, rival=rival):
        assert scene.found().broken == 0, scene
        said = [message.text for message in scene.log().messages if message.is_user()]
        assert said == [PROMPT, "Once."], scene


def test_a_run_that_ends_between_two_looks_is_not_told_as_crashed(store_url: str, tmp_path: Path) -> None:
    gates: dict[str, tuple[threading.Event, threading.Thread]] = {}

    def running(other: SyncSteptrail, scene: Scene) -> Agent:
        inside, gate = threading.Event(), threading.Event()

        @tool
        def charge() -> str:
            """Charge the card, when the gate is open."""
            inside.set()
            gate.wait(60)
            return "charged"

        agent = AgentBuilder("till").with_model(ScriptedModel([call("charge"), "Paid."])).with_tools(charge).build()
        owner = threading.Thread(target=other.run, args=(agent, PROMPT), kwargs={"session": scene.name})
        owner.start()
        inside.wait(60)
        gates[scene.name] = (gate, owner)
        return agent

    def let_it_end(session: SyncSession, agent: Agent) -> None:
        del agent
        gate, owner = gates[session.session_id]
        gate.set()
        owner.join()

    async def ask_why(session: Session, agent: Agent) -> None:
        del agent
        assert not (await session.why()).is_crashed

    for scene in at_each_look(store_url, tmp_path, given=running, act=ask_why, rival=let_it_end):
        assert scene.accepted == {"first", "rival"}
