"""Names, places in a log and lists that callers give are refused in one line when they are none."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import ConfigurationError, SessionNotFound
from steptrail.testing import ScriptedModel
from steptrail.workflow import Workflow
from tests.runner.kit import trail_of

AGENT = AgentBuilder("a").with_model(ScriptedModel(["Hello."])).build()
FLOW = Workflow("w").function("f", lambda seen: seen.input).build()


async def _of(trail: Steptrail, call: Callable[[], object]) -> None:
    del trail
    call()


NAMED: dict[str, Callable[[Steptrail, Any], Awaitable[object]]] = {
    "run": lambda trail, wrong: trail.run(AGENT, "Hi.", session=wrong),
    "start": lambda trail, wrong: trail.start(AGENT, "Hi.", session=wrong),
    "run of a workflow": lambda trail, wrong: trail.run(FLOW, 1, session=wrong),
    "fork": lambda trail, wrong: trail.session("s").fork(session=wrong),
    "session": lambda trail, wrong: _of(trail, lambda: trail.session(wrong)),
    "flow": lambda trail, wrong: _of(trail, lambda: trail.flow(wrong)),
    "handle": lambda trail, wrong: _of(trail, lambda: trail.handle(wrong)),
    "follower": lambda trail, wrong: _of(trail, lambda: trail.follower(wrong)),
    "find": lambda trail, wrong: trail.find(wrong),
    "tree": lambda trail, wrong: trail.tree(wrong),
    "erase": lambda trail, wrong: trail.erase(wrong, by="ana", reason="asked"),
    "erase, by": lambda trail, wrong: trail.erase("s", by=wrong, reason="asked"),
}

PLACED: dict[str, Callable[[Steptrail, Any], Awaitable[object]]] = {
    "state": lambda trail, wrong: trail.session("s").state(at=wrong),
    "history": lambda trail, wrong: trail.session("s").history(at=wrong),
    "events": lambda trail, wrong: trail.session("s").events(after=wrong),
    "fork": lambda trail, wrong: trail.session("s").fork(at=wrong),
    "follow": lambda trail, wrong: _of(trail, lambda: trail.session("s").follow(after=wrong)),
    "subscribe": lambda trail, wrong: _of(trail, lambda: trail.subscribe(wrong, follow=False)),
}

LISTED: dict[str, Callable[[Steptrail, Any], Awaitable[object]]] = {
    "history": lambda trail, wrong: trail.run(AGENT, "Hi.", session="t", history=wrong),
    "messages": lambda trail, wrong: trail.run(FLOW, 1, session="t", messages=wrong),
    "artifacts": lambda trail, wrong: trail.run(FLOW, 1, session="t", artifacts=wrong),
    "unset": lambda trail, wrong: trail.flow("f").step("f", "continue", by="ana", unset=wrong),
    "`types`": lambda trail, wrong: trail.session("s").history(types=wrong),
    "targets": lambda trail, wrong: trail.flow("f").step("f", "skip", by="ana", targets=wrong),
}

FLAGS: dict[str, Callable[[Steptrail, Any], Awaitable[object]]] = {
    "take_over": lambda trail, wrong: trail.session("s").resume(AGENT, take_over=wrong),
    "take_over of a workflow": lambda trail, wrong: trail.flow("f").resume(FLOW, take_over=wrong),
    "strict": lambda trail, wrong: trail.session("s").resume(AGENT, strict=wrong),
    "strict of a workflow": lambda trail, wrong: trail.flow("f").resume(FLOW, strict=wrong),
    "strict of a worker": lambda trail, wrong: _of(trail, lambda: trail.work(AGENT, strict=wrong)),
    "live": lambda trail, wrong: _of(trail, lambda: trail.work(AGENT, live=wrong)),
    "crashed": lambda trail, wrong: trail.runs(crashed=wrong),
    "wait": lambda trail, wrong: _of(trail, lambda: trail.follower("books", wait=wrong)),
    "forever": lambda trail, wrong: _of(trail, lambda: trail.session("s").follow(forever=wrong)),
}


@pytest.mark.parametrize("place", NAMED)
async def test_a_name_is_a_text(place: str) -> None:
    async with trail_of() as trail:
        await trail.run(AGENT, "Hi.", session="s")
        for wrong in (5, 0, False, b"s", ["s"]):
            with pytest.raises(ConfigurationError, match=rf"is a text, not {type(wrong).__name__}$"):
                await NAMED[place](trail, wrong)
            assert len(await trail.runs()) == 1


@pytest.mark.parametrize("place", PLACED)
async def test_a_place_in_a_log_is_a_whole_number(place: str) -> None:
    async with trail_of() as trail:
        await trail.run(AGENT, "Hi.", session="s")
        for wrong in (-0.0, 1.0, float("nan"), "1", True, 2**63, -1):
            with pytest.raises(ConfigurationError, match=r"is a (whole number|number from [01])"):
                await PLACED[place](trail, wrong)


@pytest.mark.parametrize("place", FLAGS)
async def test_a_flag_is_true_or_false(place: str) -> None:
    async with trail_of() as trail:
        await trail.run(AGENT, "Hi.", session="s")
        await trail.run(FLOW, 1, session="f")
        for wrong in ("false", 0, None):
            with pytest.raises(ConfigurationError, match=f"^`{place.split()[0]}` is True or False, not "):
                await FLAGS[place](trail, wrong)


@pytest.mark.parametrize("place", LISTED)
async def test_a_list_is_no_text(place: str) -> None:
    async with trail_of() as trail:
        for wrong in (5, "plan", {"plan": 1}):
            with pytest.raises(ConfigurationError, match=f"^{place}: Expected a list, got `{type(wrong).__name__}`"):
                await LISTED[place](trail, wrong)
            assert not await trail.runs()


@pytest.mark.parametrize("wrong", ["step.complete.v1", "\ud800", 5, ["step.completed.v1"]])
async def test_a_type_that_no_event_has_is_refused(wrong: Any) -> None:
    async with trail_of() as trail:
        await trail.run(AGENT, "Hi.", session="s")
        reads: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: trail.session("s").history(types=[wrong]),
            lambda: _of(trail, lambda: trail.subscribe(types=[wrong])),
            lambda: _of(trail, lambda: trail.follower("books", types=[wrong])),
        )
        for read in reads:
            with pytest.raises(ConfigurationError, match=re.escape(f"{wrong!r}: no event has this type")):
                await read()


async def test_the_variables_of_a_run_are_an_object() -> None:
    wrong: Any = ["plan"]
    async with trail_of() as trail:
        with pytest.raises(ConfigurationError, match=r"^vars: Expected `object`, got `list`"):
            await trail.run(FLOW, 1, session="f", vars=wrong)
        with pytest.raises(ConfigurationError, match=r"^set: Expected `object`, got `list`"):
            await trail.flow("f").step("f", "continue", by="ana", set=wrong)


async def test_a_state_of_an_event_that_is_not_there_is_refused() -> None:
    async with trail_of() as trail:
        state = (await trail.run(AGENT, "Hi.", session="s")).state
        session = trail.session("s")
        assert await session.state(at=state.version) == state
        assert (await session.state(at=0)).version == 0
        with pytest.raises(ConfigurationError, match=f"session 's' has {state.version} events: `at` takes a number up"):
            await session.state(at=state.version + 1)
        with pytest.raises(SessionNotFound):
            await trail.session("nobody").state(at=3)
