"""The origin of each message of the conversation: which step made it, when, and how its tool call ended.

Messages are shown to models. Origins are kept beside them, in the same order, for programs that show the conversation
to people. They also cover executions whose steps are no longer kept.
"""

from msgspec import Struct

from steptrail.domain.agent.step import CallStatus, ToolExecution
from steptrail.domain.failures import ErrorType


class MessageOrigin(Struct, frozen=True, array_like=True, gc=False):
    """The origin of one message.

    `at` is in microseconds of UTC; for the result of a call, it is the time at which the model asked for the call.
    `execution` is the ordinal of the execution, 0 before the first. `step` is the number of the step that made the
    message; None for a message of a person or a hook. `hook` is the name of that hook. `position` is the position of
    the tool call that the message answers, and the fields after it describe that call. `output` says that the message
    asks the model for its answer in the right form; such a message is not shown to people. `is_answer` says that all
    the calls of a reply were answers, in the form of the agent that had asked for it.
    """

    at: int
    execution: int
    step: int | None = None
    hook: str | None = None
    position: int | None = None
    status: CallStatus | None = None
    error_type: ErrorType | None = None
    duration_seconds: float = 0.0
    output: bool = False
    is_answer: bool = False


def origin_of_call(call: ToolExecution, *, at: int, execution: int, step: int) -> MessageOrigin:
    """Return the origin of the message that answers a call of a step, from the present state of the call."""
    return MessageOrigin(
        at=at,
        execution=execution,
        step=step,
        position=call.position,
        status=call.status,
        error_type=call.error.type if call.error is not None else None,
        duration_seconds=call.duration_seconds,
    )
