"""The stream of one request: what its fold tells of a session, encoded, until the session rests."""

import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from steptrail.domain.agent.standing import standing
from steptrail.domain.agent.state import AgentState
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.http.agui.fold import AguiFold
from steptrail.interfaces.http.agui.work import EndpointWork
from steptrail.interfaces.http.sse import End
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.following import Following
from steptrail.runtime.kernel.lists import is_due
from steptrail.runtime.kernel.log_raised import log_raised
from steptrail.runtime.kernel.thread_calls import run_in_thread

if TYPE_CHECKING:
    from ag_ui.core import Event

    from steptrail.domain.agent.events import AgentEvent

T = TypeVar("T")

_LONG = 500
"""So many messages take longer to put together than a thread takes to begin."""

_log = logging.getLogger("steptrail")


async def watched(
    trail: Steptrail, fold: AguiFold, work: EndpointWork, end: End, *, joins: bool
) -> AsyncGenerator[str]:
    """Yield the run as Server-Sent Events, to its last one, which comes at once when `end` returns."""
    from ag_ui.core import MessagesSnapshotEvent
    from ag_ui.encoder import EventEncoder

    encode = EventEncoder().encode
    session = trail.session(fold.state.agent_id)

    async def encoded(event: "Event") -> str:
        is_long = isinstance(event, MessagesSnapshotEvent)
        return await put_together(partial(encode, event), fold.state) if is_long else encode(event)

    try:
        for event in await put_together(partial(fold.begin, joins=joins), fold.state):
            yield await encoded(event)
        async with session.follow(after=fold.state.version, forever=True) as following:
            with work.looking(fold.state, following, end):
                async for event in _until_it_rests(trail, fold, work, following):
                    yield await encoded(event)
        last = [await encoded(event) for event in await put_together(await _last(trail, fold, work), fold.state)]
    except Exception as error:  # also of the user's function that makes the state, or of what it returned
        said = "session %s can no longer be shown to a front end of AG-UI"
        log_raised(_log, error, said, session.id, level=logging.ERROR)
        last = [encode(event) for event in _failed(fold, error)]
    for each in last:
        yield each


async def put_together(make: Callable[[], T], state: AgentState) -> T:
    """Return what holds the conversation of a session. A long one is put together in a thread: others have the loop."""
    return await run_in_thread(make, name="steptrail-agui") if len(state.messages) > _LONG else make()


async def _until_it_rests(
    trail: Steptrail, fold: AguiFold, work: EndpointWork, following: Following
) -> "AsyncGenerator[Event]":
    while not (work.is_closing or work.failure(fold.state) or await _rests(trail, fold.state)):
        followed = await anext(following, None)
        if followed is None:
            return
        if isinstance(followed, Recorded):
            events = fold.apply(cast("Recorded[AgentEvent]", followed))
        else:
            events = fold.show(followed)
        for event in events:
            yield event


async def _rests(trail: Steptrail, state: AgentState) -> bool:
    """Tell whether a session has come as far as it can until somebody asks or answers, or a time is over.

    One that a worker could bring on does not rest, and neither does one in which more is stored than has been told.
    """
    if not standing(state).is_at_rest:
        return False
    stream = trail.session(state.agent_id).stream_id
    if await is_due(trail.store, stream, trail.clock.utc()):
        return False
    return await trail.store.version(stream) == state.version


async def _last(trail: Steptrail, fold: AguiFold, work: EndpointWork) -> "Callable[[], list[Event]]":
    if await _rests(trail, fold.state):
        return fold.finish
    if (failure := work.failure(fold.state)) is not None:
        return partial(_failed, fold, failure)
    return partial(fold.fail, "The run is no longer followed here: connect again.", "connection_closed")


def _failed(fold: AguiFold, error: BaseException) -> "list[Event]":
    """End with an error of ours: what it says may name hosts and files, so only its kind is told."""
    return fold.fail(f"The run cannot go on ({type(error).__name__}).", "internal_error")
