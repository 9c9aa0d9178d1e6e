"""Where a run stands, what ended a stretch of it, and why it stopped: the same words for every machine."""

from enum import StrEnum

__all__ = [
    "CutBy",
    "ExecutionStatus",
    "SegmentEnd",
    "StopReason",
]


class CutBy(StrEnum):
    """Which time was up when a call was cut off: that of a limit of the run, under its name, or the call's own."""

    TIMEOUT = "timeout"
    """The limit on the run's wall time."""
    CUMULATIVE_TIMEOUT = "cumulative_timeout"
    """The limit on the run's active time."""
    TOOL_TIMEOUT = "tool_timeout"
    """The timeout of the tool. The run goes on."""


class ExecutionStatus(StrEnum):
    """Where a session stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"


class SegmentEnd(StrEnum):
    """What ended the segment before a resume."""

    PAUSE = "pause"
    WAIT = "wait"
    CRASH = "crash"
    TAKE_OVER = "take_over"


class StopReason(StrEnum):
    """Why a run stopped, in the words that dashboards use."""

    COMPLETED = "completed"
    """No more work was asked for."""
    STEPS_LIMIT = "steps_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - the limit on tokens, not a credential
    TIME_LIMIT = "time_limit"
    RETRY_LIMIT = "retry_limit"
    """An error was to be retried and no retries were left."""
    ERROR = "error"
    """The error policy, or a criterion that broke, forbade going on."""
    FINISH_REASON = "finish_reason"
    """The model ended its answer for a reason that ends the run."""
    GUARD = "guard"
    """Some other guard forbade going on."""
    USER_REQUESTED = "user_requested"
