"""Two people give two commands to one session at the same moment, each with a trail in an event loop of its own.

Whatever comes of a pair, it is a result or an error of ours, the store is sound, and its lists and read models say what
its log says.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from steptrail import Agent, AgentBuilder, Steptrail, tool
from steptrail.errors import SessionErased, SteptrailError
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.interfaces.cli.examination import examine
from steptrail.testing import ScriptedModel, call

Command = Callable[[Steptrail, str], Awaitable[object]]


@tool(approval=True)
def pay() -> str:
    """Pay what needs a yes."""
    return "paid"


def desk() -> Agent:
    return AgentBuilder("desk").with_model(ScriptedModel([call("pay"), *["Paid."] * 9])).with_tools(pay).build()


async def erase(trail: Steptrail, name: str) -> object:
    return await trail.erase(name, by="ana", reason="asked", cascade=True)


COMMANDS: Mapping[str, Command] = {
    "approve": lambda trail, name: trail.session(name).approve(f"{name}:1:1:0", by="ana"),
    "deny": lambda trail, name: trail.session(name).deny(f"{name}:1:1:0", by="ben"),
    "stop": lambda trail, name: trail.session(name).stop(by="ana"),
    "pause": lambda trail, name: trail.session(name).pause(by="ana"),
    "unpause": lambda trail, name: trail.session(name).unpause(by="ana"),
    "resume": lambda trail, name: trail.session(name).resume(desk()),
    "take over": lambda trail, name: trail.session(name).resume(desk(), take_over=True),
    "requeue": lambda trail, name: trail.session(name).requeue(by="ana"),
    "send": lambda trail, name: trail.session(name).send(desk(), "And?"),
    "post": lambda trail, name: trail.session(name).post(desk(), "And?"),
    "start": lambda trail, name: trail.start(desk(), "Pay.", session=name, key=name),
    "fork": lambda trail, name: trail.session(name).fork(session=f"{name}-fork"),
    "erase": erase,
    "read": lambda trail, name: trail.session(name).why(),
    "ask": lambda trail, name: trail.views.runs(),
    "rebuild": lambda trail, name: trail.views.rebuild(),
}
PAIRS = list(combinations_with_replacement(COMMANDS, 2))


async def waits(trail: Steptrail, name: str) -> None:
    await trail.run(desk(), "Pay.", session=name)


async def is_paused(trail: Steptrail, name: str) -> None:
    await trail.start(desk(), "Pay.", session=name)
    await trail.session(name).pause(by="ana")


async def has_ended(trail: Steptrail, name: str) -> None:
    await trail.start(desk(), "Pay.", session=name)
    await trail.session(name).stop(by="ana")


def give(url: str, which: int, begin: threading.Barrier, raw: list[str]) -> None:
    """Give the first or the second command of each pair, when the other one is about to be given too."""

    async def all_of_them() -> None:
        async with Steptrail.open(url, durability="normal", busy_timeout=60) as trail:
            for number, pair in enumerate(PAIRS):
                begin.wait()
                try:
                    await COMMANDS[pair[which]](trail, f"s{number}")
                except SteptrailError:
                    continue
                except Exception as error:
                    raw.append(f"{pair[which]} beside {pair[1 - which]}: {error!r}")

    try:
        asyncio.run(all_of_them())
    except BaseException:
        begin.abort()
        raise


@pytest.mark.slow("each of 136 pairs of commands")
@pytest.mark.parametrize("stand", [waits, is_paused, has_ended])
async def test_each_pair_of_commands_leaves_a_sound_store(
    tmp_path: Path, stand: Callable[[Steptrail, str], Awaitable[None]]
) -> None:
    url, raw = f"sqlite:///{tmp_path / 'runs.db'}", list[str]()
    async with Steptrail.open(url, durability="normal") as trail:
        for number in range(len(PAIRS)):
            await stand(trail, f"s{number}")
        begin = threading.Barrier(2)
        people = (asyncio.to_thread(give, url, which, begin, raw) for which in range(2))
        await asyncio.gather(*people)
        assert raw == []
        assert isinstance(trail.store, RecorderEventStore)
        assert [each for each in (await examine(trail.store)).findings if each.is_damage] == []
        await trail.views.wait(timeout=120)
        assert [each for each in await trail.views.verify() if each.is_damage] == []
        for number in range(len(PAIRS)):
            if await trail.erasure(f"s{number}") is not None:
                with pytest.raises(SessionErased):
                    await trail.session(f"s{number}").state()
