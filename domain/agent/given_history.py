"""Checks the order that providers want of a conversation: each tool call is followed at once by its result.

A history from another place is brought into that order. Messages that a program adds to a session must have it already:
a mistake would make the provider refuse every later request, and messages are never removed again.
"""

from collections.abc import Sequence

from msgspec import structs

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.messages import Message, Part, ToolCallPart, ToolResultPart


def in_order(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with a result for each call, and without results that belong to no call.

    A call without a result gets one that says that its outcome is unknown. A result counts only if it follows its call
    directly, before anything else is said; other results are left out.
    """
    return tuple(_ordered(messages, []))


def refuse_disorder(messages: Sequence[Message], what: str) -> None:
    """Raise `ConfigurationError` for messages in which calls and results are not together.

    `what` names the function or command that was given the messages, for the text of the error.
    """
    wrong: list[str] = []
    _ordered(messages, wrong)
    if wrong:
        msg = f"{what} takes a call of a tool only with its result right behind it, and no result alone: {wrong[0]}"
        raise ConfigurationError(msg)


def _ordered(messages: Sequence[Message], wrong: list[str]) -> list[Message]:
    """Return the messages in order, and add a text to `wrong` for each mistake."""
    whole: list[Message] = []
    waiting: list[ToolCallPart] = []
    for message in messages:
        parts = _fitting(message, waiting, wrong)
        results = [part for part in parts if isinstance(part, ToolResultPart)]
        if len(parts) > len(results) or not message.parts:
            # Something other than a result is said here, so the calls before it get no result any more.
            whole += _unanswered(waiting, wrong)
        if message.is_tool() and not results:
            wrong.append("a message of a tool holds no result")
        elif parts or not message.parts:
            whole.append(message if len(parts) == len(message.parts) else structs.replace(message, parts=parts))
        waiting += [part for part in parts if isinstance(part, ToolCallPart)]
    return whole + _unanswered(waiting, wrong)


def _fitting(message: Message, waiting: list[ToolCallPart], wrong: list[str]) -> tuple[Part, ...]:
    """Return the parts that are in order here, and remove the calls that they answer from `waiting`."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            place = next((i for i, call in enumerate(waiting) if call.id == part.call_id), None)
            if place is None or message.is_assistant():
                wrong.append(f"the result of {part.name!r} ({part.call_id}) answers no call")
                continue
            del waiting[place]
        elif isinstance(part, ToolCallPart) and not message.is_assistant():
            wrong.append(f"the call of {part.name!r} ({part.id}) stands in a message of the {message.role.value}")
            continue
        parts.append(part)
    return tuple(parts)


def _unanswered(waiting: list[ToolCallPart], wrong: list[str]) -> list[Message]:
    """Return a result of unknown outcome for each call in `waiting`, and empty `waiting`."""
    calls, waiting[:] = list(waiting), []
    wrong += [f"nobody answers the call of {call.name!r} ({call.id})" for call in calls]
    return [ToolExecution(position=0, call=call, phase=CallPhase.INTERRUPTED).message() for call in calls]
