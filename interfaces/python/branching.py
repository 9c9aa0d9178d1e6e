"""Where a session branches: before the input of one of its runs, which a fork leaves out with all that follows.

A message that began no run has no place of its own: what was said while a run went on is part of that run, and so is
what the model said in it.
"""

from typing import NamedTuple

from steptrail.domain.agent.events import ExecutionResumed, ExecutionStarted, MessagesAppended, StepCompleted
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.errors import CommandRejected, stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_text
from steptrail.domain.messages import Message
from steptrail.domain.tools import ToolSpec
from steptrail.projections.ui.ids import said_id
from steptrail.runtime.kernel.history import placed_of_types
from steptrail.runtime.kernel.ports import EventStore

_TYPES = [event.TYPE for event in (ExecutionStarted, ExecutionResumed, MessagesAppended, StepCompleted)]


class Input(NamedTuple):
    """The input of a run, with what the caller said of it. The first `version` events of `stream` are before it."""

    id: str
    stream: str
    version: int
    message: Message
    external_tools: tuple[ToolSpec, ...]
    context: JsonValue


async def input_of(
    store: EventStore, session: SessionId, message: str | None = None, *, at: tuple[str, int] | None = None
) -> Input:
    """Return the input with this id, as front ends show it, or the one `at` a stream and a version, or the newest.

    Raises `CommandRejected` for a message that began no run, with the nearest place before it, and for one that is
    none; `ConfigurationError` for an id that is no text.
    """
    wanted = None if message is None else a_text(message, "`before`, the id of a message,")
    newest, said, nearest = None, 0, ""
    async for stream, record in placed_of_types(AGENT, store, stream_of(session), _TYPES):
        event = record.event
        if isinstance(event, ExecutionStarted):
            if event.input is not None:
                if newest is not None and (newest.id == wanted or newest[1:3] == at):
                    return newest
                said, nearest = said + 1, ""
                newest = Input(
                    said_id(session, said),
                    stream,
                    record.version - 1,
                    event.input,
                    event.external_tools,
                    event.context,
                )
            elif newest is not None and event.context is not None:
                newest = newest._replace(context=event.context)
            if wanted is not None and newest is not None and wanted.startswith(f"{session}:{event.ordinal}:"):
                raise CommandRejected("fork", session, f"message {wanted!r} is part of a run{_instead(newest, '')}")
        elif isinstance(event, ExecutionResumed) and newest is not None and event.context is not None:
            newest = newest._replace(context=event.context)
        elif isinstance(event, StepCompleted):
            nearest = f", or after event {record.version} of {stream_name(stream)!r}, where the step before had ended"
        elif isinstance(event, MessagesAppended):
            ids = [said_id(session, said + place) for place, _ in enumerate(event.messages, 1)]
            if wanted in ids:
                why = f"message {wanted!r} was said while a run went on" if newest else f"{wanted!r} is of its history"
                raise CommandRejected("fork", session, f"{why}{_instead(newest, nearest)}")
            said += len(ids)
    if at is not None and (newest is None or newest[1:3] != at):
        raise CommandRejected("regenerate", session, "the other session exists already, and is no fork of it")
    if newest is None or (wanted is not None and newest.id != wanted):
        what = f"it has no message {wanted!r}" if wanted is not None else "nothing was said in it"
        raise CommandRejected(
            "fork", session, f"{what}: the messages that begin its runs have ids like {said_id(session, 1)!r}"
        )
    return newest


def _instead(began: Input | None, nearest: str) -> str:
    if began is None:
        return ", with which it began: begin another session"
    return f": fork before {began.id!r}, with which that run began{nearest}"
