"""The status an execution ends with.

`failed` where the vote that decided says so: for an error, for retries that the error policy has used up, and for an
answer that was cut or filtered. `completed` for the rest, limits and user stops included: the stop reason tells them
apart. An execution whose last step failed never completes, and a step that was given up before the model had replied
makes up for nothing.
"""

from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.continuation.processor import EvaluationProcessor
from steptrail.domain.shared.run import ExecutionStatus

__all__ = ["terminal_status"]


def terminal_status(state: AgentState, outcome: ContinuationOutcome) -> ExecutionStatus:
    """Return `completed` or `failed` for an execution that stops with `outcome`."""
    vote = outcome.deciding_vote
    failed = (vote is not None and EvaluationProcessor.fails(vote)) or state.consecutive_failures > 0
    return ExecutionStatus.FAILED if failed else ExecutionStatus.COMPLETED
