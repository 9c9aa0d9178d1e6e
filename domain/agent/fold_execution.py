"""Fold handlers of sessions and executions: messages, metadata, the beginning and end of executions and segments."""

from collections.abc import Iterator

from msgspec import structs

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.fold import ExecutionFold, SessionFold
from steptrail.domain.agent.fold_calls import cut_calls
from steptrail.domain.agent.ids import SessionId, execution_id
from steptrail.domain.agent.origin import MessageOrigin
from steptrail.domain.agent.phases import Phase
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.output import OutputVerdict
from steptrail.domain.shared import fold as shared
from steptrail.domain.shared.keys import said, with_retry
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.scores import session_scored
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.usage import billed_together

EXECUTION_HANDLERS = Handlers[SessionFold, [int], None]()
EXECUTION_HANDLERS.of(stored.SessionStarted)(shared.session_started)
EXECUTION_HANDLERS.of(stored.MetadataChanged)(shared.metadata_changed)
EXECUTION_HANDLERS.of(stored.PauseRequested)(shared.pause_requested)
EXECUTION_HANDLERS.of(stored.PauseLifted)(shared.pause_lifted)
EXECUTION_HANDLERS.of(stored.StopRequested)(shared.stop_requested)
EXECUTION_HANDLERS.of(stored.SessionScored)(session_scored)


@EXECUTION_HANDLERS.of(stored.SessionForked)
def _session_forked(fold: SessionFold, event: stored.SessionForked, at: int) -> None:
    """Go on from the past of another session."""
    shared.forked(fold, event, at, execution_id(SessionId(fold.agent_id), fold.executions))
    if fold.phase is Phase.BOUNDARY:
        fold.resume_to = fold.phase
    if (execution := fold.execution) is not None:
        execution.asked_again = False
        if execution.retry_of is not None:
            execution.retry_of = execution_id(SessionId(fold.agent_id), execution.ordinal - 1)


@EXECUTION_HANDLERS.of(stored.MessagesAppended)
def _messages_appended(fold: SessionFold, event: stored.MessagesAppended, at: int) -> None:
    if event.key is not None:
        context = fold.execution.context if fold.execution is not None else None
        fold.remember(event.key, said(*event.messages, context=context))
    origin = MessageOrigin(at, fold.executions, hook=event.by if event.source == "hook" else None)
    if fold.step is not None:
        fold.step.queued = (*fold.step.queued, *event.messages)
        fold.step.queued_origins = (*fold.step.queued_origins, *[origin] * len(event.messages))
    else:
        for message in event.messages:
            fold.say(message, origin)
    if fold.execution is not None and event.source == "input" and fold.phase is Phase.PAUSED:
        fold.execution.asked_again = True
    if fold.execution is not None and fold.step is None and any(message.is_user() for message in event.messages):
        fold.execution.unanswered, fold.execution.answer_due = True, False


@EXECUTION_HANDLERS.of(stored.ExecutionStarted)
def _execution_started(fold: SessionFold, event: stored.ExecutionStarted, at: int) -> None:
    fold.executions, fold.segment, fold.worker = event.ordinal, event.segment, event.worker or ""
    answers, last = event.input, fold.execution
    context = last.context if event.context is None and last is not None else event.context
    if event.input is not None:
        fold.input_at = len(fold.messages)
        fold.say(event.input, MessageOrigin(at, event.ordinal))
        if event.key is not None:
            fold.remember(event.key, said(event.input, context=context), ran=event.agent.name)
    else:
        answers = last.input if last is not None else None
        fold.keys = with_retry(fold.keys, event.ordinal)
        fold.withdrawn = (*fold.withdrawn, *_given_up(fold))
        fold.remember(event.key, "retry")
    if last is not None:
        fold.models_before = billed_together(fold.models_before, last.model_usage)
    fold.step = None
    fold.execution = ExecutionFold(
        id=event.execution_id,
        ordinal=event.ordinal,
        input=answers,
        key=event.key,
        agent=event.agent.with_external(event.external_tools),
        started_at=at,
        wall=Stopwatch(since=at),
        retry_of=event.retry_of,
        context=context,
        external_tools=event.external_tools,
    )


def _given_up(fold: SessionFold) -> Iterator[int]:
    """Yield the indices of the model's last messages that ask for no tool, where that answer is asked for once more.

    They are withdrawn, because no provider takes a conversation as a question that ends with an answer.
    """
    for place in range(len(fold.messages) - 1, -1, -1):
        message = fold.messages[place]
        if not message.is_assistant() or message.tool_calls:
            return
        if place not in fold.withdrawn:
            yield place


@EXECUTION_HANDLERS.of(stored.ExecutionResumed)
def _execution_resumed(fold: SessionFold, event: stored.ExecutionResumed, at: int) -> None:
    fold.segment, fold.worker = event.segment, event.worker
    if fold.phase not in {Phase.PAUSED, Phase.UNPAUSED, Phase.RECOVERING, Phase.PENDING}:
        fold.resume_to = fold.phase
    execution = fold.execution
    if execution is None:
        return
    if event.context is not None:
        execution.context = event.context
    if event.key is not None:
        answers = (execution.input,) if execution.input is not None else ()
        fold.remember(event.key, said(*answers, context=execution.context))
    execution.wall = Stopwatch(since=at)
    execution.pause_request = execution.paused = execution.unpaused = None
    execution.guard_votes = ()
    execution.waits = tuple(wait for wait in execution.waits if wait.answered_at is None)
    execution.asked_again = False
    execution.unproductive_segments = 0 if event.was_productive else execution.unproductive_segments + 1
    execution.productive = False
    if execution.wait is None or execution.wait.kind != "resources":
        execution.unopened = 0
    if event.agent is not None or event.limits is not None or event.error_policy is not None:
        old, new = execution.agent, execution.agent
        if event.agent is not None:
            new = event.agent.switched(event.switched).with_external(execution.external_tools)
            execution.switched = event.switched
            if new.model.model != old.model.model and (last := execution.steps.last) is not None and last.reply is None:
                # A call of the model before is no failure of this one. That of a tool stays a failure.
                execution.consecutive_failures = 0
        execution.agent = structs.replace(
            new, limits=event.limits or old.limits, error_policy=event.error_policy or old.error_policy
        )
        is_replaced = event.limits is not None or event.error_policy is not None
        is_of_hooks = execution.decision is not None and execution.decision.phase == "stop"
        if is_replaced and fold.resume_to is Phase.STOPPING and fold.step is None and not is_of_hooks:
            # What was replaced may be what it was to stop by: when the guards allow it, all vote again. What Stop hooks
            # have decided stands, because they would not run again.
            fold.resume_to = Phase.BOUNDARY
        if fold.goes_back_to is Phase.BOUNDARY and _has_answered(execution) and _form(old) != _form(new):
            fold.withdrawn = (*fold.withdrawn, *_given_up(fold))
            execution.unanswered = True
    if (step := fold.step) is not None:
        step.clock = Stopwatch(step.clock.counted_us + round(event.interrupted_seconds * 1e6), since=at)
        step.inference_in_doubt = fold.resume_to is Phase.INFERRING
        cut_calls(fold, event)


def _has_answered(execution: ExecutionFold) -> bool:
    """Tell whether the last step gave an answer, in whatever form."""
    if (step := execution.steps.last) is None:
        return False
    in_text = step.reply is not None and not step.has_errors and not step.has_tool_calls
    return step.output_verdict is OutputVerdict.ACCEPTED or (step.output_verdict is None and in_text)


def _form(agent: AgentSnapshot) -> object:
    """Return the form in which an agent answers; None for text."""
    return (agent.output.json_schema, agent.output.is_wrapped) if agent.output is not None else None


@EXECUTION_HANDLERS.of(stored.ExecutionPaused)
def _execution_paused(fold: SessionFold, event: stored.ExecutionPaused, at: int) -> None:
    if fold.phase not in {Phase.RECOVERING, Phase.PAUSED}:
        fold.resume_to = Phase.BOUNDARY if fold.phase is Phase.PENDING else fold.phase
    if fold.step is not None:
        fold.step.clock = Stopwatch(fold.step.clock.counted_us + round(event.step_seconds * 1e6))
    if fold.execution is not None:
        fold.execution.pause_request = None
        fold.execution.paused = Request(event.by, event.reason, at)
        # What was said before is answered when the pause is over.
        fold.execution.asked_again = False
        fold.execution.productive = True


@EXECUTION_HANDLERS.of(stored.ExecutionFinished)
def _execution_finished(fold: SessionFold, event: stored.ExecutionFinished, at: int) -> None:
    if fold.execution is not None:
        fold.execution.finished, fold.execution.finished_at = event, at
        fold.execution.waits, fold.execution.asked_again = (), False
        # `version` still counts the events before this one.
        fold.ended_at_version = fold.ended_at_version.appended(fold.version + 1)
