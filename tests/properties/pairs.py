"""Tells whether a request has each call of a tool with its result right behind it, as every provider wants it."""

from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import ToolCallPart, ToolResultPart


def unpaired(request: ModelRequest) -> list[str]:
    """Return the calls of a request without a result right behind them, and the results without a call."""
    waiting, found = list[str](), list[str]()
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ToolResultPart) and part.call_id in waiting:
                waiting.remove(part.call_id)
            elif isinstance(part, ToolResultPart):
                found.append(f"result {part.call_id}")
        if not message.is_tool():
            found += waiting
            waiting = [part.id for part in message.parts if isinstance(part, ToolCallPart)]
    return found + waiting
