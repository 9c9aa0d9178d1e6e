"""What a run returns, the same for every ending: limits, stops, pauses and failures included."""

from dataclasses import dataclass

from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.decision import StopReason
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.errors import ExecutionFailed
from steptrail.domain.prices import Cost
from steptrail.domain.usage import Usage

__all__ = ["RunResult"]


@dataclass(frozen=True, slots=True)
class RunResult:
    """Where a session stood when the runner let go of it. `state` is all of it.

    `stored` says that nothing was run for it: what was asked for had been answered before.
    """

    state: AgentState
    stored: bool = False

    @property
    def agent_id(self) -> str:
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
        """Why it stopped; nothing when it has not."""
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
        """What this execution has cost by the prices recorded with it; nothing when none are."""
        return self.state.cost

    def raise_for_stop(self) -> "RunResult":
        """Return self when the work was completed or answered; raise `ExecutionFailed` that says why it was not."""
        if self.answered or (self.status is ExecutionStatus.COMPLETED and self.stop_reason is StopReason.COMPLETED):
            return self
        vote = self.outcome.deciding_vote if self.outcome else None
        why = f"{self.stop_reason.value}: {vote.reason}" if self.stop_reason and vote else str(self.stop_reason or "")
        msg = f"execution {self.execution_id} is {self.status.value}" + (f" ({why})" if why else "")
        raise ExecutionFailed(f"{msg}; ask `steptrail why {self.agent_id}` for every vote")
