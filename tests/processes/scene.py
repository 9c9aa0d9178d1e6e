"""What the races are written with: one store, an owner on it, and somebody else at the worst moment."""

from collections.abc import Awaitable, Callable

import pytest

from steptrail.domain.agent.commands import Command, Send
from steptrail.domain.agent.events import InferenceStarted
from steptrail.domain.errors import StoreUnavailable
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Commit
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolEffect
from steptrail.infrastructure.tools import tool
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing.scripted_model import Reply, ScriptedModel
from tests.processes.agents.interposed import Interposed

NAME = "s1"


@tool(effect=ToolEffect.READ)
def look() -> str:
    """Look something up."""
    return "42"


def agent_of(*script: Reply) -> Agent:
    return AgentBuilder("races").with_model(ScriptedModel(script)).with_tools(look).build()


async def append_alone(control: SessionControl, command: Command) -> None:
    """Append a command as a process does that finds somebody else running the session."""
    await control.stream.append(await control.stream.existing(), command)


class Scene:
    """One store, the owner's trail on it, and another caller who sees the same store undisturbed."""

    def __init__(self) -> None:
        self.store = Interposed()
        self.owner = Steptrail(Environment(store=self.store, worker="owner"))
        self.other = Steptrail(Environment(store=self.store.inner, worker="other")).session(NAME)

    def once_before(self, event: type[Event], act: Callable[[], Awaitable[object]]) -> None:
        """Do something just before the first commit that holds such an event."""
        self.store.before_append = once(act, event)

    async def say(self, text: str) -> None:
        """Append a message as another process does that finds the session busy."""
        control = self.other._control  # pyright: ignore[reportPrivateUsage]
        await append_alone(control, Send(messages=(Message.user(text),)))

    async def crash_before(self, event: type[Event], agent: Agent) -> None:
        """Leave the session as a process leaves it that dies before such an event is stored."""

        async def die() -> None:
            raise StoreUnavailable("the process is gone")

        self.once_before(event, die)
        with pytest.raises(StoreUnavailable):
            await self.owner.run(agent, "Go.", session=NAME)

    async def events(self, event: type[Event] = Event) -> list[Event]:
        return [record.event for record in await self.other.events() if isinstance(record.event, event)]


def once(act: Callable[[], Awaitable[object]], event: type[Event] = Event) -> Callable[[Commit], Awaitable[None]]:
    """Do something in the first commit that holds such an event."""
    done = False

    async def moment(commit: Commit) -> None:
        nonlocal done
        if not done and any(isinstance(each, event) for _, each in commit.events):
            done = True
            await act()

    return moment


async def stopped(session: Session) -> None:
    await session.stop(by="ops")


async def paused(session: Session) -> None:
    await session.pause(by="ops")


async def idle(commit: Commit) -> None:
    del commit


def pausing(scene: Scene) -> Callable[[Commit], Awaitable[None]]:
    """Ask for a pause as soon as the model has been called."""

    async def moment(commit: Commit) -> None:
        if any(isinstance(event, InferenceStarted) for _, event in commit.events):
            await paused(scene.other)

    return moment


async def quiet(stream: str) -> None:
    del stream
