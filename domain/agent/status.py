"""The status an execution ends with.

`failed` where the vote that decided says so: for an error, for retries that the error policy has used up, and for an
answer that was cut or filtered. `completed` for the rest, limits and user stops included: the stop reason tells them
apart. An execution whose last step failed never completes.
"""

from steptrail.domain.agent.events.execution import ExecutionStatus
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.continuation.processor import EvaluationProcessor

__all__ = ["terminal_status"]


def terminal_status(state: AgentState, outcome: ContinuationOutcome) -> ExecutionStatus:
    """Return `completed` or `failed` for an execution that stops with `outcome`."""
    vote, step = outcome.deciding_vote, state.current_step
    failed = (vote is not None and EvaluationProcessor.fails(vote)) or (step is not None and step.has_errors)
    return ExecutionStatus.FAILED if failed else ExecutionStatus.COMPLETED
