"""Why a session stopped, or why it has not: the answer of `steptrail why`, from its events alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionStarted,
    SessionForked,
    StepCompleted,
    WaitStarted,
)
from steptrail.domain.agent.fold import Request
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import StepError
from steptrail.domain.instants import seconds_between, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.policy.resolver import decisive
from steptrail.domain.prices import Cost
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.tools import result_text
from steptrail.projections.advice import Advice, advise
from steptrail.projections.agent_state import project_agent_state
from steptrail.projections.rendering import by_whom, error_data, request_data

__all__ = ["AgentExplanation", "ShadowStop", "Spent", "explain", "up_to"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Time, tokens and cost that the execution has used. Times in seconds; `cost` where prices are recorded."""

    steps: int
    tokens: int
    active_seconds: float
    wall_seconds: float
    tool_calls: int
    failed_steps: int
    cost: Cost | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowStop:
    """Where a guard in shadow would have stopped the execution first: after which step, in which event."""

    step: int
    version: int
    vote: ContinuationEvaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentExplanation:
    """The whole answer. `events` maps what happened to the version of its event in the stream.

    `error` is what it failed of, or waits to try again. `retry_of` is the execution that this one retries,
    `retried_as` the one that retries this; `is_newest` says that none came after it. `is_owned` says whether a process
    runs it, None when that cannot be told, `is_crashed` that it is open and none does. `damage` is why no more than the
    events before it could be read. `state` is what all of it was read from.
    """

    session_id: str
    execution_id: str | None
    status: ExecutionStatus
    stop_reason: str | None
    answered: bool
    verdict: str
    decided_by: ContinuationEvaluation | None
    votes: tuple[ContinuationEvaluation, ...]
    shadow_stops: tuple[ShadowStop, ...]
    spent: Spent
    advice: Advice | None
    waits_for: str | None
    awaiting_approval: tuple[ToolExecution, ...]
    events: dict[str, int]
    error: StepError | None = None
    paused: Request | None = None
    stop_requested: Request | None = None
    retry_of: str | None = None
    retried_as: str | None = None
    is_newest: bool = True
    is_owned: bool | None = None
    is_crashed: bool = False
    damage: str | None = None
    state: AgentState = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {
            "sessionId": self.session_id,
            "executionId": self.execution_id,
            "status": self.status.value,
            "stopReason": self.stop_reason,
            "answered": self.answered,
            "verdict": self.verdict,
            "crashed": self.is_crashed,
            "damage": self.damage,
            "error": error_data(self.error),
            "pausedBy": request_data(self.paused),
            "stopRequestedBy": request_data(self.stop_requested),
            "resolvedBy": self.decided_by.criterion_class if self.decided_by else None,
            "evaluations": [vote.to_dict() for vote in self.votes],
            "shadowStops": [
                {"step": stop.step, "version": stop.version, **stop.vote.to_dict()} for stop in self.shadow_stops
            ],
            "spent": {
                "steps": self.spent.steps,
                "tokens": self.spent.tokens,
                "activeSeconds": self.spent.active_seconds,
                "wallSeconds": self.spent.wall_seconds,
                "toolCalls": self.spent.tool_calls,
                "failedSteps": self.spent.failed_steps,
                "cost": self.spent.cost.to_dict() if self.spent.cost else None,
            },
            "continuesWith": [change.text for change in self.advice.changes] if self.advice else [],
            "wouldContinue": self.advice.would_continue if self.advice else None,
            "waitsFor": self.waits_for,
            "approvals": [_approval_data(call) for call in self.awaiting_approval],
            "events": dict(self.events),
            "retryOf": self.retry_of,
            "retriedAs": self.retried_as,
        }


def up_to(records: Sequence[Recorded[AgentEvent]], execution: str | int) -> Sequence[Recorded[AgentEvent]]:
    """Return the records up to the end of an execution, which is named by its id or its number in the session.

    Raises `ConfigurationError` when there is none.
    """
    names: list[str] = []
    for place, record in enumerate(records):
        if isinstance(record.event, ExecutionStarted):
            if names and execution in {names[-1], len(names)}:
                return records[:place]
            names.append(record.event.execution_id)
    if not names or execution not in {names[-1], len(names)}:
        raise ConfigurationError(f"there is no execution {execution!r} in the session: it has {', '.join(names)}")
    return records


def explain(
    session_id: str,
    records: Sequence[Recorded[AgentEvent]],
    *,
    now: int,
    owned: bool | None = None,
    execution: str | int | None = None,
    damage: str | None = None,
) -> AgentExplanation:
    """Explain the newest execution of a session, or the one of that id or number.

    `owned` says whether some process runs it right now; without knowing, a silence and a crash look the same. `damage`
    says why these are not all of its events. Raises `ConfigurationError` when there is no such execution.
    """
    later = records
    records = records if execution is None else up_to(records, execution)
    told = _told(records)
    state = project_agent_state(session_id, records)
    if state.is_open:
        state = state.at(max(now, state.as_of))
    outcome = state.last_continuation_outcome
    finished = state.status in {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED}
    decided_by = outcome.deciding_vote if outcome else None
    advice = None
    if finished and outcome is not None and state.agent is not None:
        step = state.current_step
        permanent = step is not None and step.has_errors and not decisive(step.errors).error.retryable
        advice = advise(outcome.evaluations, state.agent.limits, permanent_error=permanent)
    return AgentExplanation(
        session_id=session_id,
        execution_id=state.execution_id,
        status=state.status,
        stop_reason=state.stop_reason.value if state.stop_reason else None,
        answered=state.answered,
        verdict=_verdict(state, decided_by, owned=owned) + _damaged(state, damage),
        decided_by=decided_by,
        votes=outcome.evaluations if outcome else (),
        shadow_stops=_shadow_stops(told),
        spent=_spent(state),
        advice=advice,
        waits_for=_waits_for(state),
        awaiting_approval=_awaiting_approval(state),
        events=_events(told),
        error=deciding_error(state),
        paused=state.paused,
        stop_requested=state.stop_request,
        retry_of=state.execution.retry_of if state.execution is not None else None,
        retried_as=_retried_as(_told(later), state),
        is_newest=len(later) == len(records),
        is_owned=owned,
        is_crashed=owned is False and state.status is ExecutionStatus.IN_PROGRESS and damage is None,
        damage=damage,
        state=state,
    )


def _damaged(state: AgentState, damage: str | None) -> str:
    return "" if damage is None else f"; damaged: so it stood after event {state.version}, and {damage}"


def _retried_as(records: Sequence[Recorded[AgentEvent]], state: AgentState) -> str | None:
    """Return the execution that retries the last one of the state."""
    # By its number: a fork calls the executions that it shares by its own id.
    number = state.fold.executions + 1
    started = (record.event for record in records if isinstance(record.event, ExecutionStarted))
    return next((event.execution_id for event in started if event.retry_of and event.ordinal == number), None)


def _verdict(state: AgentState, decided_by: ContinuationEvaluation | None, *, owned: bool | None) -> str:
    outcome, steps = state.last_continuation_outcome, f"{state.step_count} step{'' if state.step_count == 1 else 's'}"
    match state.status:
        case ExecutionStatus.COMPLETED | ExecutionStatus.FAILED:
            by = f", decided by {decided_by.criterion_class}: {decided_by.reason}" if decided_by else ""
            reason = outcome.stop_reason.value if outcome else "unknown"
            if not by and outcome is not None and not outcome.is_forbidden():
                by = ": no criterion asked for another step"
            how = (
                "answered and stopped"
                if state.answered and state.stop_reason is not StopReason.COMPLETED
                else "stopped"
            )
            return f"{state.status.value}, {how} after {steps} ({reason}){by}"
        case ExecutionStatus.PAUSED:
            by = f" {by_whom(state.paused)}" if state.paused is not None else ""
            return f"not stopped: paused after {steps}{by}"
        case ExecutionStatus.WAITING:
            return f"not stopped: waiting after {steps} for {_waits_for(state)}"
        case ExecutionStatus.PENDING:
            return "not started: no execution yet"
        case ExecutionStatus.IN_PROGRESS:
            silent = seconds_between(state.fold.updated_at, state.as_of)
            doing = f"in {state.phase.value} after {steps}, last event {silent:.1f} s ago"
            if owned is None:
                return f"not stopped: {doing}"
            if owned:
                return f"not stopped: running, {doing}"
            return f"not stopped: {state.status.value}, crashed, {doing}, and no process runs it"


def _waits_for(state: AgentState) -> str | None:
    wait = state.execution.wait if state.execution else None
    if wait is None:
        return None
    if wait.kind == "approval":
        asked = [(call, call.approval) for call in _awaiting_approval(state)]
        return "; ".join(_asked(state, call, approval) for call, approval in asked if approval is not None) or None
    if wait.kind == "child":
        rests = [call.suspension for call in state.tool_executions if call.suspension is not None]
        return "; ".join(f"session {each.session}, which {each.reason}" for each in rests) or None
    if wait.until is not None:
        left = seconds_between(state.as_of, wait.until)
        return f"the time of a retry, {to_datetime(wait.until):%Y-%m-%d %H:%M:%S} UTC ({left:.0f} s from now)"
    call = state.tool_executions[wait.position] if wait.position is not None else None
    what = f"{call.name} ({call.effect_id})" if call else "a call"
    return f"somebody to say what {what} did, whose outcome is unknown"


def _awaiting_approval(state: AgentState) -> tuple[ToolExecution, ...]:
    return tuple(call for call in state.tool_executions if call.open_approval is not None)


def _asked(state: AgentState, call: ToolExecution, approval: Approval) -> str:
    left = seconds_between(state.as_of, approval.expires_at)
    expires = f"expires {to_datetime(approval.expires_at):%Y-%m-%d %H:%M:%S} UTC, {left / 3600:.1f} h from now"
    why = f" ({approval.reason})" if approval.reason else ""
    return f"somebody to approve {call.name} {result_text(call.arguments)}{why}: approval {approval.id}, {expires}"


def _approval_data(call: ToolExecution) -> dict[str, JsonValue]:
    asked = call.approval
    if asked is None:
        return {}
    return {
        "id": asked.id,
        "tool": call.name,
        "arguments": call.arguments,
        "digest": asked.digest,
        "expiresAt": to_datetime(asked.expires_at).isoformat(),
        "askedBy": asked.asked_by,
        "reason": asked.reason,
    }


def _spent(state: AgentState) -> Spent:
    recorded = sum(len(step.tool_executions) for step in state.steps)
    execution = state.execution
    end = execution.finished_at if execution and execution.finished_at is not None else state.as_of
    return Spent(
        steps=state.step_count,
        tokens=state.usage.total,
        active_seconds=state.cumulative_execution_seconds,
        wall_seconds=seconds_between(execution.started_at, end) if execution else 0.0,
        tool_calls=recorded + len(state.tool_executions),
        failed_steps=state.total_failures,
        cost=state.cost,
    )


def _shadow_stops(records: Sequence[Recorded[AgentEvent]]) -> tuple[ShadowStop, ...]:
    """Return the first would-be stop of each guard in shadow, in the order in which they came."""
    first: dict[str, ShadowStop] = {}
    step = 0
    for record in records:
        match record.event:
            case ExecutionStarted():
                first, step = {}, 0
            case StepCompleted(number=number):
                step = number
            case EvaluationsRecorded(votes=votes):
                for vote in votes:
                    if "shadow" in vote.context and vote.shadow is ContinuationDecision.FORBID:
                        first.setdefault(vote.criterion_class, ShadowStop(step=step, version=record.version, vote=vote))
            case _:
                pass
    return tuple(first.values())


_MARKS: dict[type[AgentEvent], str] = {
    ExecutionStarted: "started",
    EvaluationsRecorded: "votes",
    ContinuationEvaluated: "decision",
    ExecutionPaused: "paused",
    SessionForked: "forked",
    WaitStarted: "waiting",
    ExecutionFinished: "finished",
}


def _told(records: Sequence[Recorded[AgentEvent]]) -> Sequence[Recorded[AgentEvent]]:
    """Return the records of which an explanation tells more than the state does."""
    return [record for record in records if type(record.event) in _MARKS or type(record.event) is StepCompleted]


def _events(records: Sequence[Recorded[AgentEvent]]) -> dict[str, int]:
    marks: dict[str, int] = {}
    for record in records:
        if isinstance(record.event, ExecutionStarted | SessionForked):
            marks = {}
        if type(record.event) in _MARKS:
            marks[_MARKS[type(record.event)]] = record.version
    return marks
