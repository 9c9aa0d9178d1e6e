"""Where each message of the conversation comes from: which step made it, when, and what became of its tool call.

The messages are what a model is shown. Their origins stand beside them, in the same order, for whoever shows the
conversation to people: they also tell of executions whose steps are no longer kept.
"""

from functools import cache
from typing import Annotated, NamedTuple

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.failures import ErrorType
from steptrail.domain.kernel.log import Log

__all__ = ["MessageOrigin", "MessageOrigins", "origin_of_call"]


class MessageOrigin(NamedTuple):
    """How one message came about.

    `at` is in microseconds of UTC: for the result of a call, when the model asked for it. `execution` is the ordinal of
    the execution, 0 before the first. `step` is the step that made the message, and nothing for what somebody said;
    `hook` names the hook that said it. `position` is the call that the message answers; what follows is about it.
    """

    at: int
    execution: int
    step: int | None = None
    hook: str | None = None
    position: int | None = None
    status: CallStatus | None = None
    error_type: ErrorType | None = None
    duration_seconds: float = 0.0


def origin_of_call(call: ToolExecution, *, at: int, execution: int, step: int) -> MessageOrigin:
    """Return the origin of the message that answers a call of a step, as the call stands."""
    return MessageOrigin(
        at=at,
        execution=execution,
        step=step,
        position=call.position,
        status=call.status,
        error_type=call.error.type if call.error is not None else None,
        duration_seconds=call.duration_seconds,
    )


@cache
def _adapter() -> TypeAdapter[MessageOrigin]:
    return TypeAdapter(MessageOrigin)


def _write(origins: Log[MessageOrigin]) -> str:
    return b"\n".join(origins.encoded(0, _adapter().dump_json)).decode()


def _read(written: object) -> Log[MessageOrigin]:
    if isinstance(written, str):
        return Log[MessageOrigin].written(written.encode().splitlines(), lambda line: _adapter().validate_json(line))
    if isinstance(written, Log):
        return written  # pyright: ignore[reportUnknownVariableType]
    msg = "the origins of messages are lines of text"
    raise ValueError(msg)


MessageOrigins = Annotated[Log[MessageOrigin], PlainSerializer(_write, return_type=str), PlainValidator(_read)]
"""Origins that are written as one text of lines: nobody who goes on with a session looks at them."""
