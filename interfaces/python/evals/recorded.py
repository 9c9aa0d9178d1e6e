"""A recorded session as far as it is compared: the first input, all that came with it, and the result."""

from dataclasses import dataclass
from typing import Any

from steptrail.domain.agent.events import AgentEvent, ExecutionStarted, MessagesAppended, SessionStarted
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.shared.tags import TOLD_IN_METADATA
from steptrail.interfaces.python.session import Session
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.files import with_stored_bytes

_READ = (SessionStarted.TYPE, MessagesAppended.TYPE, ExecutionStarted.TYPE)


class NotCompared(Exception):
    """There is nothing to judge, for this reason."""


@dataclass(frozen=True, slots=True)
class ComparedSession:
    """A recorded session as far as it is compared: its first input, and the result."""

    asked: ExecutionStarted
    message: Message
    history: tuple[Message, ...]
    metadata: dict[str, JsonValue]
    result: RunResult[Any]


async def compared_session(session: Session) -> ComparedSession:
    """Read what a session was asked first, and the result of that, or of its newest retry.

    Raises `NotCompared` for one that has not ended, and for a fork.
    """
    records = await session.history(types=_READ)
    events: list[AgentEvent] = [record.event for record in records]
    state = await session.state()
    if state.forked_from is not None:
        raise NotCompared(f"it goes on from {state.forked_from.session}, which can be compared")
    starts = [each for each in events if isinstance(each, ExecutionStarted)]
    if not starts or starts[0].input is None:
        raise NotCompared("nothing was started in it")
    asked, number = starts[0], 1
    while number < len(starts) and starts[number].retry_of is not None:
        number += 1
    ended = state.ended_at(number)
    if ended is None:
        raise NotCompared(f"execution {number} is {state.status.value} and has not ended")
    before = events[: events.index(asked)]
    history = tuple(each for event in before if isinstance(event, MessagesAppended) for each in event.messages)
    began = next(event.metadata for event in before if isinstance(event, SessionStarted))
    # Who may see it, and has it erased, finds what was made of it too: that goes by the metadata of today.
    metadata = {name: value for name, value in began.items() if name not in TOLD_IN_METADATA}
    metadata |= {name: value for name, value in state.metadata.items() if name in TOLD_IN_METADATA}
    message, *history_with = await with_stored_bytes(session.environment.store, (starts[0].input, *history))
    result: RunResult[Any] = RunResult(await session.state(at=ended))
    return ComparedSession(asked, message, tuple(history_with), metadata, result)
