"""The command that takes a run of a workflow further, as it can be typed."""

from dataclasses import replace

from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import TaskPhase
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.going_on import ForRun, GivenWords, WayOn, answers_to, typed
from steptrail.interfaces.python.naming import name_of
from steptrail.projections.flow_questions import questions_of_flow

__all__ = ["WORKFLOW", "how_a_flow_goes_on"]

WORKFLOW = "WORKFLOW"
"""The word for the file of the workflow where it is not known. What is stored does not say it."""


def how_a_flow_goes_on(state: FlowState, given: GivenWords) -> WayOn:
    """Return the command that takes the run further, with the workflow and its code where they were given."""
    stream, who, store = flow_stream(state.flow_id), given.agent or WORKFLOW, given.store
    name, code = name_of(stream), [word for each in given.use for word in ("--use", each)]
    resume = typed(store, "resume", who, name, options=code)
    match state.status:
        case ExecutionStatus.COMPLETED:
            again = typed(store, "run", who, "INPUT", options=("--id", state.flow_id, *code))
            return WayOn(again, of=ForRun.NEXT)
        case ExecutionStatus.FAILED | ExecutionStatus.STOPPED:
            return WayOn(typed(store, "retry", who, name, options=code))
        case ExecutionStatus.WAITING if asked := questions_of_flow(stream, state):
            first, *others = answers_to(replace(asked[0], digest=None), store=store)
            return WayOn(first, " or ".join(f"`{other}`" for other in others))
        case ExecutionStatus.WAITING if below := [task for task in state.tasks if task.phase is TaskPhase.SUSPENDED]:
            child = typed(store, "why", name_of(below[0].stream or stream))
            return WayOn(child, f"`{resume}` when that one can go on", None)
        case _:
            return WayOn(resume)
