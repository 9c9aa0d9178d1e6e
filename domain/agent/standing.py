"""Derives the `Standing` of a session, with its waits, in the terms of the kernel."""

from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import WaitStarted
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.ids import ExecutionId, effect_id
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.agent.waiting import owner_stays_for
from steptrail.domain.kernel.commands import CALLER
from steptrail.domain.kernel.standing import Standing, StandingState, Wait

__all__ = ["answered", "kind_below", "standing", "waits_of"]


def waits_of(fold: SessionFold, event: WaitStarted, at: int) -> tuple[Wait, ...]:
    """Return the waits that begin with `event`, whose version is the next one: one wait, or one for each child."""
    execution, step, version = fold.execution, fold.step, fold.version + 1
    if execution is None:
        return ()
    id_of_it, calls = ExecutionId(execution.id), step.calls if step is not None else []
    number = step.number if step is not None else len(execution.steps)
    if event.kind == "child":
        return tuple(
            Wait(
                id=effect_id(id_of_it, number, call.position),
                kind=event.kind,
                since=at,
                asked_at_version=version,
                due_at=call.suspension.until,
                on=f"{kind_below(execution.agent, call)}:{call.suspension.session}",
            )
            for call in calls
            if call.suspension is not None
        )
    if event.position is None:
        name = f"{execution.id}:{number}"
        return (Wait(id=name, kind=event.kind, since=at, asked_at_version=version, due_at=event.until),)
    # The wait for an approval names the event that asks for it, because that event holds the digest of the arguments.
    asked = calls[event.position].open_approval if event.position < len(calls) else None
    return (
        Wait(
            id=effect_id(id_of_it, number, event.position),
            kind=event.kind,
            since=asked.asked_at if asked is not None else at,
            asked_at_version=asked.asked_at_version if asked is not None else version,
            due_at=event.until,
        ),
    )


def kind_below(agent: AgentSnapshot, call: ToolExecution) -> str | None:
    """Return the kind of the stream that a call runs; None when it runs no stream."""
    spec = agent.tool(call.name)
    return spec.runs_children if spec is not None else None


def answered(waits: tuple[Wait, ...], at: int) -> tuple[Wait, ...]:
    """Return the waits, marked as answered at the instant `at` (microseconds of UTC)."""
    return tuple(structs.replace(wait, answered_at=at) for wait in waits)


def standing(state: AgentState) -> Standing:
    """Return the standing of the session."""
    execution, phase = state.execution, state.phase
    if phase is Phase.ABSENT:
        return Standing(state=StandingState.ABSENT)
    if execution is None:
        return Standing(state=StandingState.PENDING, due_at=state.fold.updated_at)
    if execution.finished is not None:
        return Standing(state=StandingState.DONE)
    waits, again = execution.waits, execution.asked_again
    if phase is Phase.PAUSED:
        asked = execution.paused
        if asked is not None and asked.by == CALLER:
            return Standing(state=StandingState.PAUSED, due_at=asked.at, waits=waits, asked_again=again)
        return Standing(state=StandingState.PAUSED, waits=waits, paused_by_person=True, asked_again=again)
    is_answered = any(wait.answered_at is not None for wait in waits)
    if is_answered or (phase is Phase.WAITING and not _stays(state)):
        times = (wait.due_at if wait.answered_at is None else wait.answered_at for wait in waits)
        due_at = min((time for time in times if time is not None), default=None)
        return Standing(state=StandingState.RESTING, due_at=due_at, waits=waits, asked_again=again)
    return Standing(state=StandingState.WORKING)


def _stays(state: AgentState) -> bool:
    """Tell whether the owner stays for all waits; then the session counts as working."""
    limits = state.agent.limits if state.agent is not None else None
    waits = state.execution.waits if state.execution is not None else ()
    return limits is not None and all(owner_stays_for(limits, wait.kind, wait.due_at, wait.since) for wait in waits)
