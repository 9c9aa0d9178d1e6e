"""What is asked of a run that is not there is refused, by whatever is asked, and called as people call it."""

from collections.abc import Callable
from typing import Any

import pytest

from steptrail.errors import AmbiguousId, CommandRejected, SessionNotFound
from steptrail.workflow import Workflow
from tests.runner.kit import agent_of, trail_of

FLOW = Workflow("t").noop("a").build()


async def _followed(handle: Any) -> list[Any]:
    return [each async for each in handle.follow()]


ASKED: dict[str, Callable[[Any], Any]] = {
    "state": lambda handle: handle.state(),
    "events": lambda handle: handle.events(),
    "events after": lambda handle: handle.events(after=3),
    "history": lambda handle: handle.history(),
    "history of types": lambda handle: handle.history(types=["pause.requested.v1"]),
    "why": lambda handle: handle.why(),
    "follow": _followed,
    "result": lambda handle: handle.result(),
    "pause": lambda handle: handle.pause(by="ana"),
    "stop": lambda handle: handle.stop(by="ana"),
}


@pytest.mark.parametrize("asked", ASKED)
async def test_a_run_that_is_not_there_is_not_found_and_called_by_its_kind(asked: str) -> None:
    async with trail_of() as trail:
        for handle, name in ((trail.session("x"), "session 'x'"), (trail.flow("x"), "run 'flow:x'")):
            with pytest.raises(SessionNotFound, match=f"^there is no {name} in this store$") as caught:
                await ASKED[asked](handle)
            assert caught.value.session == handle.stream_id.removeprefix("agent:")


async def test_what_only_a_workflow_is_asked_says_so_too() -> None:
    async with trail_of() as trail:
        for refused in (trail.flow("x").resume(FLOW), trail.flow("x").draw(), trail.tree("flow:x")):
            with pytest.raises(SessionNotFound, match=r"^there is no run 'flow:x' in this store$"):
                await refused


async def test_of_a_run_that_is_there_nothing_more_is_no_error() -> None:
    async with trail_of() as trail:
        await trail.run(FLOW, session="x")
        there = trail.flow("x")
        assert await there.events(after=99) == []
        assert list(await there.history(types=["pause.requested.v1"])) == []
        assert list(await there.history(at=0)) == list(await trail.flow("y").history(at=0)) == []


async def test_an_id_of_two_kinds_is_told_with_the_names_that_tell_them_apart() -> None:
    async with trail_of() as trail:
        await trail.run(FLOW, "once", session="x")
        await trail.run(agent_of(["done"]).build(), "hi", session="x")
        with pytest.raises(
            AmbiguousId, match=r"^the id 'x' fits 2 sessions \(agent:x, flow:x\): say which of them$"
        ) as caught:
            await trail.find_any("x")
        for name in caught.value.candidates:
            assert (await trail.find_any(name)).stream_id == name
        assert (await trail.find("agent:x")).id == "x"
        with pytest.raises(SessionNotFound):
            await trail.find("flow:x")


async def test_what_is_refused_names_a_run_of_a_workflow_in_full() -> None:
    async with trail_of() as trail:
        await trail.run(FLOW, "once", session="x")
        handle = trail.flow("x")
        refusals: dict[str, Callable[[], Any]] = {
            "pause": lambda: handle.pause(by="ana"),
            "stop": lambda: handle.stop(by="ana"),
            "retry": lambda: handle.retry(FLOW),
            "answer": lambda: handle.answer("a", approved=True, by="ana"),
            "open": lambda: trail.run(FLOW, "twice", session="x", new=True),
        }
        for command, refused in refusals.items():
            with pytest.raises(CommandRejected, match=rf"^cannot {command} session 'flow:x': ") as caught:
                await refused()
            assert caught.value.session == "flow:x"
