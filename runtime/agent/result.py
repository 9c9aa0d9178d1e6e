"""The result of a run, the same for every ending: limits, stops, pauses and failures included."""

from dataclasses import dataclass

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.errors import ExecutionFailed
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.prices import Cost
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.usage import Usage

__all__ = ["RunResult"]


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """Where a session stood when the runner let go of it. `state` is all of it.

    `stored` means that no step was run for it: the same input had been answered before.
    """

    state: AgentState
    stored: bool = False

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.state.agent_id

    @property
    def execution_id(self) -> str | None:
        """The id of the execution."""
        return self.state.execution_id

    @property
    def status(self) -> ExecutionStatus:
        """`completed` or `failed` when it is over; `paused`, `waiting` or `in_progress` when it is not."""
        return self.state.status

    @property
    def stop_reason(self) -> StopReason | None:
        """Why it stopped; None when it has not stopped."""
        return self.state.stop_reason

    @property
    def answered(self) -> bool:
        """Whether the agent came to an end of its own, also where a limit was used up at that very moment."""
        return self.state.answered

    @property
    def output(self) -> str | None:
        """The model's answer, if it came to one."""
        return self.state.output

    @property
    def outcome(self) -> ContinuationOutcome | None:
        """The decision it ended with and every vote of it."""
        return self.state.last_continuation_outcome

    @property
    def usage(self) -> Usage:
        """Tokens of this execution."""
        return self.state.usage

    @property
    def cost(self) -> Cost | None:
        """The cost of this execution by the prices recorded with it; None when no prices are."""
        return self.state.cost

    @property
    def error(self) -> ErrorInfo | None:
        """The error that it failed with, with the place in the user's code; None when it did not fail with an error."""
        failed = deciding_error(self.state)
        return failed.error if failed is not None else None

    def __repr__(self) -> str:
        """Return where the session stands, and the error if one decided."""
        said = [self.status.value, *([self.stop_reason.value] if self.stop_reason is not None else [])]
        said += [f"{self.state.step_count} steps", *([str(self.error)] if self.error is not None else [])]
        return f"<RunResult {self.session_id!r}: {', '.join(said)}>"

    def raise_for_stop(self) -> "RunResult":
        """Return self when the work was completed or answered; raise `ExecutionFailed` that says why it was not."""
        if self.answered or (self.status is ExecutionStatus.COMPLETED and self.stop_reason is StopReason.COMPLETED):
            return self
        outcome, by = self.outcome, self.state.paused
        vote = outcome.deciding_vote if outcome is not None and self.stop_reason is not None else None
        why = [self.stop_reason.value] if self.stop_reason is not None else []
        why += [vote.reason] if vote is not None else []
        why += [f"by {by.by}{f': {by.reason}' if by.reason else ''}"] if by is not None else []
        said = f"execution {self.execution_id} is {self.status.value}" + (f" ({': '.join(why)})" if why else "")
        raise ExecutionFailed(f"{said}: {self.error}" if self.error is not None else said)
