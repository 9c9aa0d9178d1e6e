"""Events of a model call. It has no side effect except its cost, so after a crash it is made again."""

from typing import Literal

from steptrail.domain.base import Count, Positive, Seconds
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.inference import ModelReply, ToolChoice
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.output import OutputMode
from steptrail.domain.shared.run import CutBy

InterruptionReason = Literal["crash", "stop", "cancelled", "deadline"]
"""The cause by which a model call was cut off: the end of its process, a stop, its cancelled caller, a deadline."""


class InferenceStarted(Event, frozen=True, kw_only=True):
    """The model is about to be called. Of the request, only the digest and the number of messages are stored.

    `output_mode` is the way in which an answer of a type is asked for; None for a call that asks for none.
    """

    TYPE = "inference.started.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"model", "request_digest"})
    step: Positive
    attempt: Positive = 1
    model: str
    request_digest: str
    message_count: Count
    tool_choice: ToolChoice = ToolChoice.AUTO
    parallel_tool_calls: bool | None = None
    output_mode: OutputMode | None = None


class InferenceCompleted(Event, frozen=True, kw_only=True):
    """The model replied."""

    TYPE = "inference.completed.v1"
    KIND = EventKind.WORLD
    reply: ModelReply
    duration_seconds: Seconds


class InferenceFailed(Event, frozen=True, kw_only=True):
    """The model call failed."""

    TYPE = "inference.failed.v1"
    KIND = EventKind.WORLD
    error: ErrorInfo
    duration_seconds: Seconds


class InferenceInterrupted(Event, frozen=True, kw_only=True):
    """The model call was cut off before there was a reply.

    `is_given_up` says that it is not made again: the step ends without a reply. `cut_by` is the limit whose `deadline`
    (microseconds of UTC) cut it; both are None for a cut without a deadline.
    """

    TYPE = "inference.interrupted.v1"
    KIND = EventKind.WORLD
    reason: InterruptionReason
    is_given_up: bool
    cut_by: CutBy | None = None
    deadline: int | None = None


InferenceEvent = InferenceStarted | InferenceCompleted | InferenceFailed | InferenceInterrupted
