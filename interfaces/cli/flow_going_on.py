"""The command that takes a run of a workflow further, as it can be typed."""

from collections.abc import Sequence
from dataclasses import replace

from steptrail.domain.errors import stream_name
from steptrail.domain.flow.events import NodeFailed
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.kinds.port import MISSING_CODE
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.going_on import ForRun, GivenWords, WayOn, answers_to, typed, valued
from steptrail.projections.flow_questions import questions_of_flow

WORKFLOW = "WORKFLOW"
"""The word for the file of a workflow that was begun in Python, or that does not have what the run calls."""


def code_of_flow(state: FlowState, given: GivenWords) -> Sequence[str]:
    """Return where the workflow is that was given or recorded, then the options that bring its code."""
    started = state.run.started if state.run is not None else None
    who, use = given.agent, given.use
    if who is None and started is not None:
        who, use = started.locator, started.use
    return (who or WORKFLOW, *(word for each in use for word in ("--use", each)))


def how_a_flow_goes_on(state: FlowState, given: GivenWords) -> WayOn:
    """Return the command that takes the run further.

    A workflow that was given, with its code, stands in place of the recorded one.
    """
    stream, store = flow_stream(state.flow_id), given.store
    name, (who, *code) = stream_name(stream), code_of_flow(state, given)
    resume = typed(store, "resume", who, name, options=code)
    asked = questions_of_flow(stream, state)
    below = [task for task in state.tasks if task.phase is TaskPhase.SUSPENDED]  # they wait with a run of their own
    match state.status:
        case ExecutionStatus.COMPLETED:
            again = typed(store, "run", who, "INPUT", options=(*valued("--id", state.flow_id), *code))
            return WayOn(again, of=ForRun.NEXT)
        case ExecutionStatus.FAILED | ExecutionStatus.STOPPED:
            if _misses_code(state):
                who, code = WORKFLOW, []  # that one does not have it
            return WayOn(typed(store, "retry", who, name, options=code))
        case ExecutionStatus.WAITING if in_time := [each for each in asked if each.is_open_at(state.as_of)]:
            first, *others = answers_to(replace(in_time[0], digest=None), store=store)
            return WayOn(first, " or ".join(f"`{other}`" for other in others))
        case ExecutionStatus.WAITING if not asked and below:
            child = typed(store, "why", stream_name(below[0].stream or stream))
            return WayOn(child, f"`{resume}` when that one can go on", None)
        case _:
            return WayOn(resume)


def _misses_code(state: FlowState) -> bool:
    failed = state.run.ended_by if state.run is not None else None
    return isinstance(failed, NodeFailed) and MISSING_CODE in failed.error.details
