"""The status of a run, the ends of its segments, and the reasons why it stops, in terms that all machines share."""

from enum import StrEnum
from typing import Final


class CutBy(StrEnum):
    """The time limit by which a call was cut off: a limit of the run, under its name, or the timeout of the tool."""

    TIMEOUT = "timeout"
    """The limit on the run's wall time."""
    CUMULATIVE_TIMEOUT = "cumulative_timeout"
    """The limit on the run's active time."""
    TOOL_TIMEOUT = "tool_timeout"
    """The timeout of the tool. The run goes on."""


class ExecutionStatus(StrEnum):
    """The status of a session: that of its open execution, or of the last one."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    """A person stopped a workflow. An agent that is stopped is completed, because it hands on what it has."""

    @property
    def is_over(self) -> bool:
        """Tell whether an execution with it has ended."""
        return self in {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.STOPPED}


class SegmentEnd(StrEnum):
    """The way in which a segment ended, as the resume after it records it."""

    START = "start"
    """There was none: the execution was started for a worker, which begins with it now."""
    PAUSE = "pause"
    WAIT = "wait"
    CRASH = "crash"
    TAKE_OVER = "take_over"


_ENDED_AT_REST: Final = {"paused": SegmentEnd.PAUSE, "unpaused": SegmentEnd.PAUSE, "pending": SegmentEnd.START}


def end_of_segment(phase: str, *, waited: bool) -> SegmentEnd:
    """Return how the newest segment ended, by the phase of its run and whether that waited."""
    return _ENDED_AT_REST.get(phase, SegmentEnd.WAIT if waited else SegmentEnd.CRASH)


class StopReason(StrEnum):
    """The reason why a run stopped, in the words that dashboards use."""

    COMPLETED = "completed"
    """No criterion asked for more work."""
    STEPS_LIMIT = "steps_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - the limit on tokens, not a credential
    TIME_LIMIT = "time_limit"
    RETRY_LIMIT = "retry_limit"
    """An error was to be retried and no retries were left."""
    ERROR = "error"
    """The error policy forbade to go on, or a criterion raised."""
    FINISH_REASON = "finish_reason"
    """The model's finish reason is one that ends the run."""
    GUARD = "guard"
    """Another guard forbade to go on."""
    USER_REQUESTED = "user_requested"


def after_step(number: int) -> str:
    """Return when something was, by the step before it: `after step 2`, or `before the first step`."""
    return f"after step {number}" if number else "before the first step"
