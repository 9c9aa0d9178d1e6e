"""Derives the `Standing` of a session, with its waits, in the terms of the kernel, and its row in a list."""

from functools import partial

from msgspec import structs

from steptrail.domain.agent.events import WaitStarted
from steptrail.domain.agent.fold import SessionFold
from steptrail.domain.agent.ids import STREAM_PREFIX, effect_id, position_of
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.waiting import owner_stays_for
from steptrail.domain.kernel.standing import Standing, StandingState, Wait
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.state import for_tenant, summary_of
from steptrail.domain.shared.summary import RunSummary

_AT_WORK = frozenset(Phase) - {Phase.ABSENT, Phase.IDLE, Phase.PENDING, Phase.WAITING, Phase.PAUSED, Phase.UNPAUSED}
"""The phases in which an owner is at work."""
_IN_PROGRESS = ExecutionStatus.IN_PROGRESS.value

_FOR_ANSWERS = frozenset({"approval", "external"})
"""The kinds of waits that are over together: all that a reply needs of people was asked at once."""


def waits_of(fold: SessionFold, event: WaitStarted, at: int) -> tuple[Wait, ...]:
    """Return the waits that begin with `event`, whose version is the next one: one, or one a child or a question.

    External calls are open whatever the run waits for. Beside its resources, which it waits for before all else, they
    are not told of.
    """
    execution, step, version = fold.execution, fold.step, fold.version + 1
    if execution is None:
        return ()
    calls = step.calls if step is not None else []
    number = step.number if step is not None else len(execution.steps)
    # Such a wait names the event that asks, because that event holds the digest of the arguments.
    asked = [
        Wait(
            id=effect_id(execution.id, number, call.position),
            kind="approval" if call.open_approval is not None else "external",
            since=question.asked_at,
            asked_at_version=question.asked_at_version,
            due_at=question.expires_at,
        )
        for call in calls
        if (question := call.open_approval or call.open_deferral) is not None
    ]
    if event.kind in _FOR_ANSWERS:
        return tuple(asked)
    if event.kind == "child":
        waits = [
            Wait(
                id=effect_id(execution.id, number, call.position),
                kind=event.kind,
                since=at,
                asked_at_version=version,
                due_at=call.suspension.until,
                on=f"{call.runs}:{call.suspension.session}",
            )
            for call in calls
            if call.suspension is not None
        ]
    else:
        name = f"{execution.id}:{number}" if event.position is None else effect_id(execution.id, number, event.position)
        waits = [Wait(id=name, kind=event.kind, since=at, asked_at_version=version, due_at=event.until)]
    beside = [] if event.kind == "resources" else [wait for wait in asked if wait.kind == "external"]
    return tuple(sorted((*waits, *beside), key=lambda wait: position_of(wait.id)) if beside else waits)


def standing(state: AgentState) -> Standing:
    """Return the standing of the session. What was said while it was paused makes it due."""
    found = for_tenant(_standing(state), state.fold.metadata)
    return structs.replace(found, due_at=state.fold.updated_at) if found.asked_again else found


def _standing(state: AgentState) -> Standing:
    fold = state.fold
    execution, phase, runs = fold.execution, fold.phase, fold.executions
    if execution is not None and phase in _AT_WORK and not (execution.finished or execution.wait or execution.waits):
        # By far the most usual one, because it is asked for at every commit.
        return Standing(state=StandingState.WORKING, status=_IN_PROGRESS, runs=runs)
    status = state.status.value
    if phase is Phase.ABSENT:
        return Standing(state=StandingState.ABSENT, status=status)
    if execution is None:
        return Standing(state=StandingState.DONE, status=status)  # a fork from before the first input: nobody is asked
    if execution.finished is not None:
        return Standing(state=StandingState.DONE, status=status, runs=runs)
    stands = partial(Standing, status=status, runs=runs, waits=execution.waits, asked_again=execution.asked_again)
    if phase is Phase.PENDING:
        return stands(state=StandingState.PENDING, due_at=execution.started_at)
    if execution.unpaused is not None:
        return stands(state=StandingState.PENDING, due_at=execution.unpaused.at)
    if phase is Phase.PAUSED:
        asked = execution.paused
        if asked is not None and not asked.is_by_person:
            return stands(state=StandingState.PAUSED, due_at=asked.at)
        return stands(state=StandingState.PAUSED, paused_by_person=True)
    is_answered = bool(execution.waits) and all(wait.answered_at is not None for wait in _deciding(execution.waits))
    if is_answered or (phase is Phase.WAITING and not _stays(state)):
        return stands(state=StandingState.RESTING, due_at=_due_at(execution.waits))
    return Standing(state=StandingState.WORKING, status=status, runs=runs, waits=execution.waits)


def _due_at(waits: tuple[Wait, ...]) -> int | None:
    """Return when a run that waits can go on: after the last of its questions, or after the first of other waits."""
    deciding = _deciding(waits)
    ends = (wait.due_at if wait.answered_at is None else wait.answered_at for wait in deciding)
    times = [end for end in ends if end is not None]
    is_for_answers = any(wait.kind in _FOR_ANSWERS for wait in deciding)
    return (max if is_for_answers else min)(times, default=None)


def _deciding(waits: tuple[Wait, ...]) -> tuple[Wait, ...]:
    """Return the waits after which a run goes on. External calls that are open beside another one hold nothing up."""
    return tuple(wait for wait in waits if wait.kind not in _FOR_ANSWERS) or waits


def summary(state: AgentState) -> RunSummary:
    """Return the row of the session in a list."""
    fold, execution = state.fold, state.execution
    return summary_of(
        state,
        standing(state),
        kind=STREAM_PREFIX.removesuffix(":"),
        session_id=fold.agent_id,
        name=execution.agent.name if execution is not None else fold.name,
        steps=state.step_count,
        active_seconds=execution.active_us / 1e6 if execution is not None else 0.0,
    )


def _stays(state: AgentState) -> bool:
    """Tell whether the owner stays for all waits; then the session counts as working."""
    limits = state.agent.limits if state.agent is not None else None
    waits = state.execution.waits if state.execution is not None else ()
    if limits is None:
        return False
    return all(owner_stays_for(limits, wait.kind, wait.due_at, wait.since) for wait in _deciding(waits))
