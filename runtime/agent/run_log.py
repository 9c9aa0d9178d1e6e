"""Writes about runs to the logger `steptrail.runs`, which is silent until the user sets up logging.

INFO says how a run began and ended, WARNING that a call failed or is retried, ERROR that a run failed, and DEBUG that a
step was taken. A failure in the user's code is written with its traceback. Only this log has it: events hold no source.

No record holds a prompt, a reply, an argument or a result. The words of an exception are written, without credentials.
"""

import logging
from typing import Final

from msgspec.structs import replace

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.agent.frames import frames_of
from steptrail.runtime.kernel.log_raised import log_raised

RUNS: Final = logging.getLogger("steptrail.runs")

_QUOTING: Final = frozenset({"ChildFailed", "InvalidArguments", "SubagentFailed", "WorkflowFailed"})


def began(state: AgentState) -> None:
    """Log that a segment was opened."""
    if RUNS.isEnabledFor(logging.INFO):
        said = "session %s: execution %s of agent %s runs as segment %d"
        RUNS.info(said, state.agent_id, state.execution_id, state.name, state.fold.segment)


def ended(state: AgentState) -> None:
    """Log how the run ended in this process: finished, paused, or waiting."""
    level = logging.ERROR if state.status is ExecutionStatus.FAILED else logging.INFO
    if not RUNS.isEnabledFor(level):
        return
    said = [f"{state.status.value} after {state.step_count} step{'' if state.step_count == 1 else 's'}"]
    outcome = state.last_continuation_outcome
    if state.stop_reason is not None:
        said[0] += f" ({state.stop_reason.value})"
        if outcome is not None and (vote := outcome.deciding_vote) is not None:
            # The reason of another criterion may hold words of the model, such as an answer that did not fit.
            counts = vote.setting is not None and vote.setting != "output"
            said.append(f"decided by {vote.criterion_class}" + (f": {vote.reason}" if counts else ""))
    elif state.paused is not None:
        said.append(state.paused.by_whom)
    if (error := deciding_error(state)) is not None:
        said.append(loggable(error.error))
    RUNS.log(level, "session %s: execution %s %s", state.agent_id, state.execution_id, ", ".join(said))


def loggable(error: ErrorInfo) -> str:
    """Return class, words and place of an error, without words that may quote an argument or what a model said.

    Those of refused arguments do, and those of a child that came to no answer: the child has records of its own.
    """
    module, _, name = error.error_class.partition(":")
    quotes = module.partition(".")[0] == "steptrail" and name in _QUOTING
    return str(replace(error, message="") if quotes else error)


def call_failed(run: str, what: str, error: ErrorInfo, raised: BaseException | None) -> None:
    """Log that a call or a node failed, with the traceback. `run` is such as `session s` or `flow f`."""
    log_raised(RUNS, raised, "%s: %s failed: %s", run, what, loggable(error))


def resources_failed(run: str, what: str, error: BaseException) -> None:
    """Log that the resources of a run could not be opened or closed, with the traceback of the exception."""
    log_raised(RUNS, error, "%s: its resources %s: %s", run, what, type(error).__name__)


def failed_vote(session: str, what: str, name: str, error: Exception) -> ContinuationEvaluation:
    """Log that a hook or a criterion raised, and return the vote that stands for the exception."""
    log_raised(RUNS, error, "session %s: %s %s raised %s", session, what, name, type(error).__name__)
    return ContinuationEvaluation.from_exception(name, error, frames_of([error]))
