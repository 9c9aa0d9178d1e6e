"""Events of a model call. An inference has no side effect but its cost, so after a crash it runs again."""

from typing import Literal

from pydantic import Field

from steptrail.domain.failures import ErrorInfo
from steptrail.domain.inference import ModelReply, ToolChoice
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.shared.run import CutBy

__all__ = [
    "InferenceCompleted",
    "InferenceEvent",
    "InferenceFailed",
    "InferenceInterrupted",
    "InferenceStarted",
    "InterruptionReason",
]

InterruptionReason = Literal["crash", "stop", "cancelled", "deadline"]
"""What cut a call off: the end of its process, a stop, its cancelled caller, a deadline."""


class InferenceStarted(Event):
    """The model is about to be called. The request is stored as a digest and the number of messages it holds."""

    TYPE = "inference.started.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"model", "request_digest"})
    step: int = Field(ge=1)
    attempt: int = Field(default=1, ge=1)
    model: str
    request_digest: str
    message_count: int = Field(ge=0)
    tool_choice: ToolChoice = ToolChoice.AUTO
    parallel_tool_calls: bool | None = None


class InferenceCompleted(Event):
    """The model replied."""

    TYPE = "inference.completed.v1"
    KIND = EventKind.WORLD
    reply: ModelReply
    duration_seconds: float = Field(ge=0)


class InferenceFailed(Event):
    """The model call failed."""

    TYPE = "inference.failed.v1"
    KIND = EventKind.WORLD
    error: ErrorInfo
    duration_seconds: float = Field(ge=0)


class InferenceInterrupted(Event):
    """The model call was cut off; what it would have said is not known.

    `is_given_up` says that it is not made again: the step ends without a reply. `cut_by` is the limit whose `deadline`
    (microseconds of UTC) cut it; both are None for what cuts off without one.
    """

    TYPE = "inference.interrupted.v1"
    KIND = EventKind.WORLD
    reason: InterruptionReason
    is_given_up: bool
    cut_by: CutBy | None = None
    deadline: int | None = None


InferenceEvent = InferenceStarted | InferenceCompleted | InferenceFailed | InferenceInterrupted
