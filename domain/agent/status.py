"""The status with which an execution ends.

It is `failed` if the deciding vote says so: for an error, for retries that the error policy has used up, and for an
answer that was cut or filtered. It is `completed` otherwise, limits and stops by a user included; the stop reason tells
those apart. An execution whose last step failed never completes. A later step does not change that if it was given up
before the model had replied.
"""

from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.continuation.processor import EvaluationProcessor
from steptrail.domain.shared.run import ExecutionStatus


def terminal_status(state: AgentState, outcome: ContinuationOutcome) -> ExecutionStatus:
    """Return `completed` or `failed` for an execution that stops with `outcome`."""
    vote = outcome.deciding_vote
    failed = (vote is not None and EvaluationProcessor.fails(vote)) or state.consecutive_failures > 0
    return ExecutionStatus.FAILED if failed else ExecutionStatus.COMPLETED
