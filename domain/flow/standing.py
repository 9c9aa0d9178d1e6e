"""Derives the `Standing` of a run of a workflow, and its row in a list."""

from functools import partial

from steptrail.domain.flow.ids import STREAM_PREFIX
from steptrail.domain.flow.phases import RunPhase
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.waits import questions_of, stays_for
from steptrail.domain.kernel.standing import Standing, StandingState
from steptrail.domain.shared.state import for_tenant, summary_of
from steptrail.domain.shared.summary import RunSummary


def standing(state: FlowState) -> Standing:
    """Return where the run stands."""
    return for_tenant(_standing(state), state.fold.metadata)


def _standing(state: FlowState) -> Standing:
    run, phase = state.run, state.phase
    stands = partial(Standing, status=state.status.value, runs=state.fold.executions)
    if phase is RunPhase.ABSENT:
        return stands(state=StandingState.ABSENT)
    if run is None:
        return stands(state=StandingState.PENDING, due_at=state.fold.updated_at)
    if phase is RunPhase.DONE:
        return stands(state=StandingState.DONE)
    if phase is RunPhase.PENDING:
        return stands(state=StandingState.PENDING, due_at=run.started_at)
    # Questions are open from when they are asked, also while other nodes run and the run itself does not wait.
    waits = run.waits or questions_of(run)
    if run.unpaused is not None:
        return stands(state=StandingState.PENDING, due_at=run.unpaused.at, waits=waits)
    if phase is RunPhase.PAUSED:
        asked = run.paused
        if asked is not None and not asked.is_by_person:
            return stands(state=StandingState.PAUSED, due_at=asked.at, waits=waits)
        return stands(state=StandingState.PAUSED, waits=waits, paused_by_person=True)
    was_answered = any(wait.answered_at is not None for wait in run.waits)
    until = run.wait.until if run.wait is not None else None
    if was_answered or (phase is RunPhase.WAITING and not stays_for(run, until, _since(state))):
        ends = (wait.due_at if wait.answered_at is None else wait.answered_at for wait in run.waits)
        due_at = min((end for end in ends if end is not None), default=None)
        return stands(state=StandingState.RESTING, due_at=due_at, waits=run.waits)
    return stands(state=StandingState.WORKING, waits=waits)


def _since(state: FlowState) -> int:
    """Return when the wait began. Whether its owner stays is decided then, and does not change with the clock."""
    waits = state.run.waits if state.run is not None else ()
    return state.run.waiting_since if state.run is not None and waits else state.fold.updated_at


def summary(state: FlowState) -> RunSummary:
    """Return the row of the run in a list."""
    return summary_of(
        state,
        standing(state),
        kind=STREAM_PREFIX.removesuffix(":"),
        session_id=state.flow_id,
        name=state.name,
        steps=state.run.finished_visits if state.run is not None else 0,
        active_seconds=state.active_seconds,
    )
