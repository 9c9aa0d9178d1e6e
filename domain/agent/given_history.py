"""The order that providers want of a conversation: each call of a tool is answered right behind it, and nothing else.

A history that was held elsewhere is made so. What a program says in the middle of a session has to be so: a mistake in
it would make every later request one that is refused, and nothing takes a message out again.
"""

from collections.abc import Sequence

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.messages import Message, Part, ToolCallPart, ToolResultPart

__all__ = ["in_order", "refuse_disorder"]


def in_order(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with an answer to each call, and without answers to none.

    A call that nobody answered is said to have an unknown outcome; a result whose call is not there says nothing
    without it, and is left out. An answer counts where it stands right behind the calls, before anything else is said.
    """
    return tuple(_ordered(messages, []))


def refuse_disorder(messages: Sequence[Message], what: str) -> None:
    """Raise `ConfigurationError` for messages whose calls and results are not together; `what` takes them."""
    wrong: list[str] = []
    _ordered(messages, wrong)
    if wrong:
        msg = f"{what} takes a call of a tool only with its result right behind it, and no result alone: {wrong[0]}"
        raise ConfigurationError(msg)


def _ordered(messages: Sequence[Message], wrong: list[str]) -> list[Message]:
    """Return the messages in order, and add to `wrong` what was not."""
    whole: list[Message] = []
    waiting: list[ToolCallPart] = []
    for message in messages:
        parts = _fitting(message, waiting, wrong)
        results = [part for part in parts if isinstance(part, ToolResultPart)]
        if len(parts) > len(results) or not message.parts:
            # Something else is said here: what still waits before it has no answer any more.
            whole += _unanswered(waiting, wrong)
        if message.is_tool() and not results:
            wrong.append("a message of a tool holds no result")
        elif parts or not message.parts:
            whole.append(message if len(parts) == len(message.parts) else message.model_copy(update={"parts": parts}))
        waiting += [part for part in parts if isinstance(part, ToolCallPart)]
    return whole + _unanswered(waiting, wrong)


def _fitting(message: Message, waiting: list[ToolCallPart], wrong: list[str]) -> tuple[Part, ...]:
    """Return the parts that may stand here. The calls that they answer wait no more."""
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
    """Return answers to the calls that wait, which do so no more."""
    calls, waiting[:] = list(waiting), []
    wrong += [f"nobody answers the call of {call.name!r} ({call.id})" for call in calls]
    return [ToolExecution(position=0, call=call, phase=CallPhase.INTERRUPTED).message() for call in calls]
