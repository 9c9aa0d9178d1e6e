"""Why a session stopped, or why it has not: the answer of `steptrail why`, from its events."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.asking import is_asked, open_until
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.deciding_error import deciding_error
from steptrail.domain.agent.evolve import extend, initial
from steptrail.domain.agent.ids import SessionId, execution_id
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.standing import standing
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.camel_case import in_camel_case
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import StepError
from steptrail.domain.instants import instant_text, seconds_between, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.output import OutputVerdict
from steptrail.domain.policy.resolver import decisive
from steptrail.domain.prices import Cost
from steptrail.domain.secrets import without_secret_values
from steptrail.domain.shared.approvals import Approval
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.tools import result_text
from steptrail.projections.advice import Advice, advise
from steptrail.projections.camel_form import camel_fields
from steptrail.projections.rendering import crash_text, damage_text, error_data, many
from steptrail.projections.run_explanation import RunExplanation, has_crashed

_SHOWN_CHARACTERS = 300
"""How much of a rejected answer is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Time, tokens and cost that the execution has used. Times in seconds; `cost` where prices are recorded.

    `tool_calls` are those that were started, as limits count them.
    """

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
class AgentExplanation(RunExplanation):
    """The whole answer.

    `error` is what it failed of, or waits to try again. `retry_of` is the execution that this one retries, `retried_as`
    the one that retries this. `rejected_answer` is the beginning of the answer on which it failed, as the model gave
    it. `context` is what was said of the run, without the values of keys that mean a secret.
    """

    session_id: str
    answered: bool
    decided_by: ContinuationEvaluation | None
    votes: tuple[ContinuationEvaluation, ...]
    shadow_stops: tuple[ShadowStop, ...]
    spent: Spent
    advice: Advice | None
    awaiting_answer: tuple[ToolExecution, ...]
    error: StepError | None = None
    retry_of: str | None = None
    retried_as: str | None = None
    rejected_answer: str | None = None
    context: JsonValue = None
    state: AgentState = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        outcome = self.state.last_continuation_outcome
        return {
            "sessionId": self.session_id,
            **self._standing(),
            "answered": self.answered,
            "error": error_data(self.error),
            "resolvedBy": outcome.resolved_by if outcome is not None else None,
            "evaluations": [vote.to_dict() for vote in self.votes],
            "shadowStops": [
                {"step": stop.step, "version": stop.version, **stop.vote.to_dict()} for stop in self.shadow_stops
            ],
            "spent": camel_fields(self.spent),
            "continuesWith": [change.text for change in self.advice.changes] if self.advice else [],
            "wouldContinue": self.advice.would_continue if self.advice else None,
            "approvals": [
                _approval_data(call, asked) for call in self.awaiting_answer if (asked := call.open_approval)
            ],
            "externalCalls": [
                _question_data(call, call.effect_id) for call in self.awaiting_answer if call.open_deferral
            ],
            "retryOf": self.retry_of,
            "retriedAs": self.retried_as,
            "switches": [in_camel_case(switch) for switch in self.state.switches],
            "compacted": in_camel_case(self.state.compacted) if self.state.compacted is not None else None,
            "rejectedAnswer": self.rejected_answer,
            "context": self.context,
        }


class AgentExplainer:
    """Explains the newest execution of a session, or the one of that id or number, from its events in order."""

    def __init__(self, session_id: str, execution: str | int | None = None) -> None:
        self._execution = execution
        self._state = initial(session_id)
        self._started: list[stored.ExecutionStarted] = []
        self._is_newest = True
        self._marks: dict[str, int] = {}
        self._step = 0
        self._shadow_stops: dict[str, ShadowStop] = {}
        self._unplaced: Collection[int] = ()
        self.version = 0
        """The version of the newest event that it has been given."""

    @classmethod
    def of_state(cls, session_id: str, state: AgentState, records: Sequence[Recorded[stored.AgentEvent]]) -> Self:
        """Explain the newest execution from a state on, given what `MARKED_TYPES` says of the events before it."""
        made = cls(session_id)
        for record in records:
            made._mark(record.version, record.event)
        made._state, made.version = state, state.version
        made._unplaced = frozenset(stop.version for stop in made._shadow_stops.values())
        return made

    def lacks(self) -> Mapping[str, bytes]:
        """Return which events before the state it needs: the steps, where a guard in shadow would have stopped one."""
        is_any = any(stop.version in self._unplaced for stop in self._shadow_stops.values())
        return {stored.StepCompleted.TYPE: b""} if is_any else {}

    def recall(self, records: Sequence[Recorded[stored.AgentEvent]]) -> None:
        """Take the events before the state that it lacks."""
        unplaced, self._unplaced = self._unplaced, ()
        for name, stop in self._shadow_stops.items():
            if stop.version in unplaced:
                within = range(self._marks.get("started", 0), stop.version)
                numbers = [
                    each.event.number
                    for each in records
                    if isinstance(each.event, stored.StepCompleted) and each.version in within
                ]
                self._shadow_stops[name] = replace(stop, step=max(numbers, default=0))

    def add(self, records: Sequence[Recorded[stored.AgentEvent]]) -> None:
        """Take the events that come next."""
        if records:
            self.version = records[-1].version
        for place, record in enumerate(records):
            event = record.event
            if type(event) not in _MARKS:
                continue
            if isinstance(event, stored.ExecutionStarted) and self._is_newest and self._is_asked_for():
                self._state = extend(self._state, records[:place])
                self._is_newest = False
            self._mark(record.version, event)
        if self._is_newest:
            self._state = extend(self._state, records)

    def _is_asked_for(self) -> bool:
        """Tell whether the execution that started last is the one that was asked for by its id or number."""
        if not self._started:
            return False
        # A fork calls the executions that it shares by its own id, and their events by that of its source.
        number = len(self._started)
        own = execution_id(SessionId(self._state.agent_id), number)
        return self._execution in (number, own, self._started[-1].execution_id)

    def _mark(self, version: int, event: stored.AgentEvent) -> None:
        """Note what is said of an event beside the state."""
        if isinstance(event, stored.ExecutionStarted):
            self._started.append(event)
        if isinstance(event, stored.SessionForked):
            # What comes before it has the versions of another stream, whichever execution is asked for.
            self._marks = {}
        elif not self._is_newest:
            return
        match event:
            case stored.EvaluationsRecorded(votes=votes):
                # The first would-be stop of each guard in shadow counts.
                for vote in votes:
                    if "shadow" in vote.context and vote.shadow is ContinuationDecision.FORBID:
                        stop = ShadowStop(step=self._step, version=version, vote=vote)
                        self._shadow_stops.setdefault(vote.criterion_class, stop)
            case stored.StepCompleted(number=number):
                self._step = number
            case stored.ExecutionStarted():
                self._marks, self._shadow_stops, self._step = {}, {}, 0
            case _:
                pass
        if (mark := _MARKS[type(event)]) is not None:
            self._marks[mark] = version

    def explanation(self, *, now: int, owned: bool | None = None, damage: str | None = None) -> AgentExplanation:
        """Return the explanation at `now`.

        `owned` says whether some process runs the session; without knowing, a silence and a crash look the same.
        `damage` says why it was not given all of its events. Raises `ConfigurationError` when there is no such
        execution.
        """
        if self._execution is not None and self._is_newest and not self._is_asked_for():
            names = ", ".join(started.execution_id for started in self._started)
            raise ConfigurationError(f"there is no execution {self._execution!r} in the session: it has {names}")
        state = self._state.at(max(now, self._state.as_of)) if self._state.is_open else self._state
        outcome = state.last_continuation_outcome
        finished = state.status in {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED}
        decided_by = outcome.deciding_vote if outcome else None
        is_crashed = has_crashed(standing(state), owned=owned, damage=damage)
        advice = None
        if finished and outcome is not None and state.agent is not None:
            step = state.current_step
            permanent = step is not None and step.has_errors and not decisive(step.errors).error.retryable
            advice = advise(outcome.evaluations, state.agent.limits, permanent_error=permanent)
        return AgentExplanation(
            session_id=state.agent_id,
            execution_id=state.execution_id,
            status=state.status,
            stop_reason=state.stop_reason.value if state.stop_reason else None,
            answered=state.answered,
            verdict=_verdict(state, decided_by, owned=None if damage else owned, is_crashed=is_crashed)
            + damage_text(state.version, damage),
            decided_by=decided_by,
            votes=outcome.evaluations if outcome else (),
            shadow_stops=tuple(self._shadow_stops.values()),
            spent=_spent(state),
            advice=advice,
            waits_for=_waits_for(state),
            awaiting_answer=_awaiting_answer(state),
            events=dict(self._marks),
            error=deciding_error(state),
            retry_of=state.execution.retry_of if state.execution is not None else None,
            retried_as=_retried_as(self._started, state),
            is_newest=self._is_newest,
            is_owned=owned,
            is_crashed=is_crashed,
            crash=crash_text(state.fold.worker, _doing(state)) if is_crashed else None,
            waits=state.execution.waits if state.execution is not None else (),
            damage=damage,
            rejected_answer=_rejected_answer(state),
            context=without_secret_values(state.context),
            state=state,
        )


def explain(
    session_id: str,
    records: Sequence[Recorded[stored.AgentEvent]],
    *,
    now: int,
    owned: bool | None = None,
    execution: str | int | None = None,
    damage: str | None = None,
) -> AgentExplanation:
    """Explain a session from all of its events; see `AgentExplainer`."""
    explainer = AgentExplainer(session_id, execution)
    explainer.add(records)
    return explainer.explanation(now=now, owned=owned, damage=damage)


def _rejected_answer(state: AgentState) -> str | None:
    """Return the beginning of the answer that did not fit and failed the execution; None when none did."""
    step = state.current_step
    if state.status is not ExecutionStatus.FAILED or step is None or step.output_verdict is not OutputVerdict.REJECTED:
        return None
    answers = (call for call in step.tool_executions if call.phase is CallPhase.REJECTED)
    said = next((result_text(call.arguments or call.call.raw) for call in answers), step.text)
    return said if len(said) <= _SHOWN_CHARACTERS else f"{said[:_SHOWN_CHARACTERS]}…"


def _retried_as(started: Sequence[stored.ExecutionStarted], state: AgentState) -> str | None:
    """Return the execution that retries the last one of the state."""
    # By its number: a fork calls the executions that it shares by its own id.
    number = state.fold.executions + 1
    return next((event.execution_id for event in started if event.retry_of and event.ordinal == number), None)


def _verdict(
    state: AgentState, decided_by: ContinuationEvaluation | None, *, owned: bool | None, is_crashed: bool
) -> str:
    outcome, steps = state.last_continuation_outcome, many(state.step_count, "step")
    match state.status:
        case ExecutionStatus.COMPLETED | ExecutionStatus.FAILED | ExecutionStatus.STOPPED:
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
            by = f" {state.paused.by_whom}" if state.paused is not None else ""
            return f"not stopped: paused after {steps}{by}"
        case ExecutionStatus.WAITING:
            waits_for = _many_answers(state) or _waits_for(state)
            died = ", crashed, and no process runs it" if is_crashed else ""
            return f"not stopped: waiting after {steps} for {waits_for}{died}"
        case ExecutionStatus.PENDING:
            if state.execution is None:
                return "not started: no execution yet"
            if state.unpaused is not None:
                since = instant_text(state.unpaused.at)
                return f"not stopped: unpaused after {steps}, waiting for a worker since {since}"
            return f"not started: waiting for a worker since {instant_text(state.execution.started_at)}"
        case ExecutionStatus.IN_PROGRESS:
            silent = seconds_between(state.fold.updated_at, state.as_of)
            doing = f"in {state.phase.value} after {steps}, last event {silent:.1f} s ago"
            if owned is None:
                return f"not stopped: {doing}"
            if owned:
                return f"not stopped: running, {doing}"
            if is_crashed:
                return f"not stopped: {state.status.value}, crashed, {doing}, and no process runs it"
            waits = state.execution.waits if state.execution is not None else ()
            since = instant_text(max((wait.answered_at or 0 for wait in waits), default=0))
            return f"not stopped: answered after {steps}, waiting for a worker since {since}"


def _doing(state: AgentState) -> list[str]:
    """Return what the owner of the run was doing when its last event was stored: its calls, else the phase."""
    step = f"step {state.open_step}" if state.open_step is not None else f"{state.phase.value} after {state.step_count}"
    running = [call for call in state.tool_executions if call.phase is CallPhase.RUNNING]
    calls = [f"{step}: tool {call.name} ({call.effect_id})" for call in running]
    return calls or [f"{step}: the model call" if state.phase is Phase.INFERRING else step]


def _below(call: ToolExecution, name: str) -> str:
    return f"session {name}" if call.runs in {None, "agent"} else f"{call.runs}:{name}"


def _waits_for(state: AgentState) -> str | None:
    wait = state.execution.wait if state.execution else None
    if wait is None:
        return None
    if wait.kind in {"approval", "external"}:
        return "; ".join(question_text(state, call) for call in _awaiting_answer(state)) or None
    if wait.kind == "child":
        rests = [(call, call.suspension) for call in state.tool_executions if call.suspension is not None]
        return "; ".join(f"{_below(call, each.session)}, which {each.reason}" for call, each in rests) or None
    if wait.kind == "resources" and wait.until is not None:
        again = instant_text(wait.until)
        return f"its resources, which could not be opened ({wait.problem}) and are opened again at {again}"
    if wait.until is not None:
        left = seconds_between(state.as_of, wait.until)
        when = f" ({left:.0f} s from now)" if left else ", which has passed"
        return f"the time of a retry, {instant_text(wait.until)}{when}"
    call = state.tool_executions[wait.position] if wait.position is not None else None
    what = f"{call.name} ({call.effect_id})" if call else "a call"
    return f"somebody to say what {what} did, whose outcome is unknown"


def _many_answers(state: AgentState) -> str | None:
    """Return how many answers the run waits for; None when it waits for one, or for anything else."""
    wait, asked = state.execution.wait if state.execution else None, _awaiting_answer(state)
    if wait is None or wait.kind not in {"approval", "external"} or len(asked) < 2:
        return None
    approvals = sum(call.open_approval is not None for call in asked)
    counts = ((approvals, "approval"), (len(asked) - approvals, "result"))
    return " and ".join(many(count, what) for count, what in counts if count)


def _awaiting_answer(state: AgentState) -> tuple[ToolExecution, ...]:
    return tuple(call for call in state.tool_executions if is_asked(call))


def question_text(state: AgentState, call: ToolExecution) -> str:
    """Return who has to approve or answer what until when, of a call about which somebody is asked."""
    what = f"{call.name} {result_text(call.arguments)}"
    expires_at, asked = open_until(call), call.open_approval
    until, hours = instant_text(expires_at), seconds_between(state.as_of, expires_at) / 3600
    then = "which is a no" if asked is not None else "so it has failed"
    expires = f"expires {until}, {hours:.1f} h from now" if hours > 0 else f"expired {until}, {then}"
    if asked is None:
        return f"somebody to answer {what}: call {call.effect_id}, {expires}"
    why = f" ({asked.reason})" if asked.reason else ""
    return f"somebody to approve {what}{why}: approval {asked.id}, {expires}"


def _question_data(call: ToolExecution, name: str | None) -> dict[str, JsonValue]:
    expires = to_datetime(open_until(call)).isoformat()
    return {"id": name, "tool": call.name, "arguments": call.arguments, "expiresAt": expires}


def _approval_data(call: ToolExecution, asked: Approval) -> dict[str, JsonValue]:
    by_whom: dict[str, JsonValue] = {"digest": asked.digest, "askedBy": asked.asked_by, "reason": asked.reason}
    return {**_question_data(call, asked.id), **by_whom}


def _spent(state: AgentState) -> Spent:
    execution = state.execution
    end = execution.finished_at if execution and execution.finished_at is not None else state.as_of
    return Spent(
        steps=state.step_count,
        tokens=state.usage.total,
        active_seconds=state.cumulative_execution_seconds,
        wall_seconds=seconds_between(execution.started_at, end) if execution else 0.0,
        tool_calls=state.tool_call_count,
        failed_steps=state.total_failures,
        cost=state.cost,
    )


_MARKS: dict[type[stored.AgentEvent], str | None] = {
    stored.ExecutionStarted: "started",
    stored.EvaluationsRecorded: "votes",
    stored.ContinuationEvaluated: "decision",
    stored.ExecutionPaused: "paused",
    stored.SessionForked: "forked",
    stored.WaitStarted: "waiting",
    stored.ExecutionFinished: "finished",
    stored.StepCompleted: None,
}
"""The events that are told of beside the state, and the names of those whose version is told."""

MARKED_TYPES = {
    **{event.TYPE: b"" for event in _MARKS},
    stored.EvaluationsRecorded.TYPE: b'"shadow"',
    # In no stored event: the newest is all that is told of.
    stored.ContinuationEvaluated.TYPE: b"\n",
    stored.StepCompleted.TYPE: b"\n",
}
"""The stored types of these events, with what all of them hold that count beside the newest."""
