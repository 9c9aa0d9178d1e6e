"""The stream of one request: what its fold tells of a session, encoded, until the session rests."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from steptrail.domain.agent.ids import checked_session_id, stream_of
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import OwnershipLost, SessionBusy, SteptrailError
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.http.agui.fold import AguiFold
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.abandoned import is_abandoned
from steptrail.runtime.kernel.following import Followed, Following

if TYPE_CHECKING:
    from ag_ui.core import Event

    from steptrail.domain.agent.events import AgentEvent
    from steptrail.runtime.agent.result import RunResult

__all__ = ["watched"]

_LOOK_SECONDS = 0.5
"""How often to look whether a session rests that no task of this process works on."""


async def watched(
    trail: Steptrail,
    fold: AguiFold,
    task: "asyncio.Task[RunResult] | None",
    closing: asyncio.Event,
    *,
    joins: bool,
) -> AsyncGenerator[str]:
    """Yield the run as Server-Sent Events, to its last one. `task` is what works on the session here."""
    from ag_ui.encoder import EventEncoder

    encode = EventEncoder().encode
    for event in fold.begin(joins=joins):
        yield encode(event)
    try:
        async with trail.session(fold.state.agent_id).follow(after=fold.state.version) as following:
            async for followed in _until_it_rests(trail, fold, following, task, closing):
                if isinstance(followed, Recorded):
                    events = fold.apply(cast("Recorded[AgentEvent]", followed))
                else:
                    events = fold.show(followed)
                for event in events:
                    yield encode(event)
        last = _last(fold, task, is_closing=closing.is_set())
    except SteptrailError as error:
        last = _failed(fold, error)
    for event in last:
        yield encode(event)


async def _until_it_rests(
    trail: Steptrail,
    fold: AguiFold,
    following: Following,
    task: "asyncio.Task[RunResult] | None",
    closing: asyncio.Event,
) -> AsyncGenerator[Followed]:
    stream = stream_of(checked_session_id(fold.state.agent_id))
    closed = asyncio.create_task(closing.wait())
    coming: asyncio.Task[Followed | None] | None = None
    try:
        while True:
            coming = coming or asyncio.create_task(_next(following))
            others = {each for each in (task, closed) if each is not None and not each.done()}
            await asyncio.wait({coming, *others}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if coming.done():
                followed, coming = coming.result(), None
                if followed is None:
                    return
                yield followed
            elif await _rests(trail, stream, fold.state, task) or closed.done():
                return
    finally:
        closed.cancel()
        if coming is not None:
            coming.cancel()
            with suppress(asyncio.CancelledError, SteptrailError):
                await coming


async def _next(following: Following) -> Followed | None:
    return await anext(following, None)


async def _rests(trail: Steptrail, stream: str, state: AgentState, task: "asyncio.Task[RunResult] | None") -> bool:
    """Tell whether a session rests until it is asked for something, and all of it has been told."""
    if task is not None and not task.done():
        return False
    waits = any(call.waits_for_a_person for call in state.tool_executions)
    if not state.is_open or waits or state.phase is Phase.PAUSED:
        return await trail.store.version(stream) == state.version
    return await is_abandoned(trail.store, stream, state.version) is True


def _last(fold: AguiFold, task: "asyncio.Task[RunResult] | None", *, is_closing: bool) -> "list[Event]":
    state = fold.state
    is_over = not state.is_open or state.phase is Phase.WAITING
    # At a shutdown a session is paused so that another process goes on with it: it does not rest.
    is_over = is_over or (state.phase is Phase.PAUSED and not is_closing)
    error = task.exception() if task is not None and task.done() and not task.cancelled() else None
    if is_over:
        return fold.finish()
    if error is not None and not isinstance(error, (SessionBusy, OwnershipLost)):
        return _failed(fold, error)
    return fold.fail("The run is no longer followed here: connect again.", "connection_closed")


def _failed(fold: AguiFold, error: BaseException) -> "list[Event]":
    """End with an error of ours: what it says may name hosts and files, so only its kind is told."""
    return fold.fail(f"The run cannot go on ({type(error).__name__}).", "internal_error")
