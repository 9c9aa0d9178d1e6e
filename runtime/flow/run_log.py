"""Writes about runs of workflows to the logger `steptrail.runs`, at the levels at which those of agents are written."""

import logging

from steptrail.domain.flow.events import LimitReached, NodeFailed, NodeRetryScheduled
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.state import FlowState
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.runtime.agent.run_log import RUNS, loggable
from steptrail.runtime.flow.failure_class import fault_class


def began(state: FlowState) -> None:
    """Log that a segment was opened."""
    said = "flow %s: execution %s of workflow %s runs as segment %d"
    RUNS.info(said, state.flow_id, state.execution_id, state.name, state.fold.segment)


def could_not_run(flow: str, node: str, failure: FailureClass) -> None:
    """Log that a node failed before any code of the user ran, or because of what it was given."""
    RUNS.warning("flow %s: node %s failed: %s", flow, node, failure.value)


def tried_again(flow: str, retry: NodeRetryScheduled) -> None:
    """Log that a node will be tried again."""
    said = "flow %s: node %s again in %.1f s, attempt %d"
    RUNS.warning(said, flow, retry.node, retry.delay_seconds, retry.attempt)


def ended(state: FlowState) -> None:
    """Log how the run ended in this process: finished, paused, or waiting."""
    level = logging.ERROR if state.status is ExecutionStatus.FAILED else logging.INFO
    if not RUNS.isEnabledFor(level):
        return
    run = state.run
    said = [state.status.value]
    if state.stop_reason is not None and run is not None and run.finished is not None:
        said[0] += f" ({state.stop_reason.value})"
        said.append(f"decided by {run.finished.resolved_by}")
    elif state.paused is not None:
        said.append(state.paused.by_whom)
    match run.ended_by if run is not None else None:
        case NodeFailed(error=failed):
            # The message of a fault may hold what a node was given or made; of an exception it is masked.
            error = failed.error
            words = "" if error is None or error.error_class == fault_class(failed.failure) else f": {loggable(error)}"
            said.append(f"node {failed.node_id} failed, {failed.failure.value}{words}")
        case LimitReached() as limit:
            said.append(limit.said)
        case _:
            pass
    RUNS.log(level, "flow %s: execution %s %s", state.flow_id, state.execution_id, ", ".join(said))
