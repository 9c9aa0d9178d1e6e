"""The stream of one request: what its fold tells of a session, encoded, until the session rests."""

import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, cast

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

if TYPE_CHECKING:
    from ag_ui.core import Event

    from steptrail.domain.agent.events import AgentEvent

_log = logging.getLogger("steptrail")


async def watched(
    trail: Steptrail, fold: AguiFold, work: EndpointWork, end: End, *, joins: bool
) -> AsyncGenerator[str]:
    """Yield the run as Server-Sent Events, to its last one, which comes at once when `end` returns."""
    from ag_ui.encoder import EventEncoder

    encode = EventEncoder().encode
    session = trail.session(fold.state.agent_id)
    try:
        for event in fold.begin(joins=joins):
            yield encode(event)
        async with session.follow(after=fold.state.version, forever=True) as following:
            with work.looking(fold.state, following, end):
                async for event in _until_it_rests(trail, fold, work, following):
                    yield encode(event)
        last = [encode(event) for event in await _last(trail, fold, work)]
    except Exception as error:  # also of the user's function that makes the state, or of what it returned
        said = "session %s can no longer be shown to a front end of AG-UI"
        log_raised(_log, error, said, session.id, level=logging.ERROR)
        last = [encode(event) for event in _failed(fold, error)]
    for each in last:
        yield each


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


async def _last(trail: Steptrail, fold: AguiFold, work: EndpointWork) -> "list[Event]":
    if await _rests(trail, fold.state):
        return fold.finish()
    if (failure := work.failure(fold.state)) is not None:
        return _failed(fold, failure)
    return fold.fail("The run is no longer followed here: connect again.", "connection_closed")


def _failed(fold: AguiFold, error: BaseException) -> "list[Event]":
    """End with an error of ours: what it says may name hosts and files, so only its kind is told."""
    return fold.fail(f"The run cannot go on ({type(error).__name__}).", "internal_error")
