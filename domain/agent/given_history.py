"""A conversation that was held elsewhere and is to go on here: every provider wants each tool call answered in it."""

from collections.abc import Sequence

from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.messages import Message, ToolResultPart

__all__ = ["answered"]


def answered(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages with an answer to each tool call: one without any is said to have an unknown outcome.

    An answer counts where it stands right behind the calls, before anything else is said.
    """
    whole: list[Message] = []
    for place, message in enumerate(messages):
        whole.append(message)
        following = messages[place + 1] if place + 1 < len(messages) else None
        if following is None or not _is_answer(following):
            whole += _missing_in(whole)
    return tuple(whole)


def _missing_in(messages: list[Message]) -> list[Message]:
    """Return the answers that the newest calls lack."""
    given: set[str] = set()
    for message in reversed(messages):
        if _is_answer(message):
            given |= {part.call_id for part in message.parts if isinstance(part, ToolResultPart)}
            continue
        calls = [call for call in message.tool_calls if call.id not in given]
        return [ToolExecution(position=0, call=call, status=CallStatus.INTERRUPTED).message() for call in calls]
    return []


def _is_answer(message: Message) -> bool:
    return any(isinstance(part, ToolResultPart) for part in message.parts)
