"""Draws the conclusions of an effect that need nothing from outside: from a state, an instant, and judges.

The runtime records the events that are concluded here. An audit that calls this again with the same judges gets the
same events.
"""

from collections.abc import Callable
from typing import Protocol, TypedDict

from msgspec import Struct

from steptrail.domain.agent import effects, events as stored
from steptrail.domain.agent.asking import asked_or_failed
from steptrail.domain.agent.call_starts import start_calls
from steptrail.domain.agent.compacting import compacted
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.deciding import decided
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.agent.means import NO_MEANS, Means
from steptrail.domain.agent.shown import Looks, ShownState
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.continuation.collection import ContinuationCriteria, Failed
from steptrail.domain.copies import own
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.inference import ModelRequest
from steptrail.domain.policy.backoff import Backoff


class RequestBuilder(Protocol):
    """Builds the request of a model call from the state, and knows its digest."""

    def build(self, state: AgentState, agent: AgentSnapshot) -> ModelRequest:
        """Return the next request to the model."""
        ...

    def digest(self, request: ModelRequest) -> str:
        """Return the SHA-256 of messages, tools and settings, in hexadecimal."""
        ...


class Judges(Struct, frozen=True, kw_only=True):
    """The things beside a state and an instant that conclusions depend on.

    `criteria` returns the criteria of an execution with these settings. `are_ours` says that all of them are built in,
    so that they may see the state itself and need no copy. `failed` returns the vote of a criterion that raised. `draw`
    returns a random number in [0, 1); an audit returns the recorded number. `means` has the context for the criteria.
    `unfit` returns why the arguments of a call do not fit its tool; None when they do. `behind` returns how many
    microseconds the clock of the run is behind the time of day, which is that of who answers a question.
    """

    criteria: Callable[[AgentSnapshot], ContinuationCriteria]
    are_ours: bool
    failed: Failed
    requests: RequestBuilder
    draw: Callable[[], float]
    means: Means = NO_MEANS
    unfit: Callable[[ToolExecution], ErrorInfo | None] = lambda _: None
    behind: Callable[[], int] = lambda: 0


def conclude(
    state: AgentState, effect: effects.Effect, now: int, judges: Judges
) -> tuple[stored.AgentEvent, ...] | None:
    """Return the events that follow from `effect` at `now`, an instant in microseconds of UTC.

    None when they need a model, a tool, a hook, a person or time. For tool calls that are to run, these are the events
    of their start. Raises `ArgumentsAltered`, and the exceptions of building a request.
    """
    if (execution := state.execution) is None:
        return None  # nothing is due before the first one
    match effect:
        case effects.Record(events=events):
            return events
        case effects.TakeDecision():
            return _decision(state, execution, effect, judges)
        case effects.StartInference():
            return _inference(state, execution.agent, effect, judges.requests)
        case effects.RunCalls(starts=starts, deadline=deadline) if starts:
            cut_by = deadline.cut_by if deadline and deadline.at <= now else None
            return start_calls(state, starts, cut_by=cut_by, now=lambda: now + judges.behind(), unfit=judges.unfit)
        case effects.Compact(plan=plan) if not plan.summarises:
            return (compacted(state.fold, execution, plan),)
        case (
            effects.RunHooks()
            | effects.Compact()
            | effects.ResolveInstructions()
            | effects.CallModel()
            | effects.JudgeAnswer()
            | effects.RunCalls()
            | effects.KeepWaiting()
        ):
            return None
        case effects.AskPeople():
            return asked_or_failed(state.tool_executions, effect, judges.unfit, judges.behind())
        case effects.ScheduleRetry(error_type=error_type, failures=failures, retry_after=retry_after):
            delay = _delay(execution.agent.error_policy.backoff, failures, retry_after, now, judges.draw())
            return (stored.RetryScheduled(error_type=error_type, **delay),)
        case effects.ScheduleToolRetry(position=position):
            return _tool_retry(execution.agent, state.tool_executions[position], now, judges.draw())


def _decision(
    state: AgentState, execution: ExecutionFold, due: effects.TakeDecision, judges: Judges
) -> tuple[stored.AgentEvent, ...]:
    """Let the criteria of this decision vote, and resolve the votes."""
    if due.phase is DecisionPhase.STOP:
        return decided(state, execution, due)
    criteria = judges.criteria(execution.agent)
    asked = criteria.guards() if due.phase is DecisionPhase.RESUME else criteria
    seen, looks = state if due.until is None else state.after_waiting(due.until), Looks()
    # Criteria of a user may keep the state that they get, or change its values. The built-in ones do neither.
    votes = asked.votes(seen if judges.are_ours else ShownState.of(seen, looks, judges.means), judges.failed)
    votes = votes if judges.are_ours else own(votes)
    if due.spares_limits:
        votes = tuple([vote for vote in votes if not vote.is_limit])
    cast = stored.EvaluationsRecorded(phase=due.phase, votes=votes, read_settings=looks.at_settings)
    return (cast, *decided(state, execution, due, cast))


def _tool_retry(agent: AgentSnapshot, call: ToolExecution, now: int, draw: float) -> tuple[stored.AgentEvent, ...]:
    """Return the time of the next try of a failed call, by the recorded retry rule of its tool."""
    spec = agent.tool(call.name)
    if spec is None or spec.retry is None:
        return ()
    retry_after = call.error.retry_after if call.error is not None else None
    delay = _delay(spec.retry.backoff, call.failures, retry_after, now, draw)
    return (stored.ToolRetryScheduled(position=call.position, **delay),)


class _Delay(TypedDict):
    failures: int
    draw: float
    delay_seconds: float
    due_at: int
    retry_after: float | None


def _delay(backoff: Backoff, failures: int, retry_after: float | None, now: int, draw: float) -> _Delay:
    """Return the part that the events of both kinds of retries share."""
    seconds = backoff.delay(failures, draw, retry_after)
    return {
        "failures": failures,
        "draw": draw,
        "delay_seconds": seconds,
        "due_at": now + round(seconds * 1e6),
        "retry_after": retry_after,
    }


def _inference(
    state: AgentState, agent: AgentSnapshot, due: effects.StartInference, requests: RequestBuilder
) -> tuple[stored.AgentEvent, ...]:
    """Return the event that the model is about to be called, with the digest of the request."""
    request = requests.build(state, agent)
    return (
        stored.InferenceStarted(
            step=due.step,
            attempt=due.attempt,
            model=agent.model.model,
            request_digest=requests.digest(request),
            message_count=len(request.messages),
            tool_choice=request.tool_choice,
            parallel_tool_calls=request.parallel_tool_calls,
            output_mode=request.output_mode,
        ),
    )
