"""Fold handlers of steps: the model's replies and the tool results become messages here, in canonical order."""

from typing import Any

from pydantic import JsonValue

from steptrail.domain.agent.events import (
    HooksRan,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceRequestAmended,
    InferenceStarted,
    StepCompleted,
    StepStarted,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
    UsageRecorded,
)
from steptrail.domain.agent.events.tools import Then
from steptrail.domain.agent.fold import SessionFold, StepFold
from steptrail.domain.agent.origin import MessageOrigin, origin_of_call
from steptrail.domain.agent.step import AgentStep, CallStatus, Suspension, ToolExecution, cut_reply_error
from steptrail.domain.failures import ErrorInfo, ErrorType, StepError
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.messages import Message, MessageRole
from steptrail.domain.tools import result_text
from steptrail.domain.usage import BilledUsage, ModelUsage

__all__ = ["STEP_HANDLERS", "change_call", "settle_call"]

STEP_HANDLERS = Handlers[SessionFold, [int], None]()

_AROUND_INFERENCE = frozenset({HookType.BEFORE_INFERENCE, HookType.AFTER_INFERENCE})
"""Hooks that stand before everything that the step is yet to do. Those of a call stand before that call alone."""


@STEP_HANDLERS.of(StepStarted)
def _step_started(fold: SessionFold, event: StepStarted, at: int) -> None:
    fold.step = StepFold(number=event.number, started_at=at, since=at)
    if fold.execution is not None:
        fold.execution.retry = None
        fold.execution.unanswered = False


@STEP_HANDLERS.of(InferenceStarted)
def _inference_started(fold: SessionFold, event: InferenceStarted, at: int) -> None:
    del at
    if fold.step is not None:
        fold.step.inference_attempt, fold.step.inference_in_doubt = event.attempt, False
        fold.step.model = event.model


@STEP_HANDLERS.of(InferenceCompleted)
def _inference_completed(fold: SessionFold, event: InferenceCompleted, at: int) -> None:
    step, execution, reply = fold.step, fold.execution, event.reply
    if step is None or execution is None:
        return
    fold.inferences += 1
    fold.usage = fold.usage + reply.usage
    execution.bill(reply.usage, ModelUsage.of_reply(step.model, reply.response_model, reply.usage))
    execution.productive = True
    step.reply = reply
    step.calls = [ToolExecution(position=i, call=call) for i, call in enumerate(reply.tool_calls)]
    if reply.parts:
        origin = MessageOrigin(at, fold.executions, step.number)
        fold.say((Message(role=MessageRole.ASSISTANT, parts=reply.parts), origin))


@STEP_HANDLERS.of(InferenceFailed)
def _inference_failed(fold: SessionFold, event: InferenceFailed, at: int) -> None:
    del at
    fold.inferences += 1
    if fold.step is not None:
        fold.step.inference_error = event.error
    if fold.execution is not None:
        fold.execution.productive = True


@STEP_HANDLERS.of(InferenceInterrupted)
def _inference_interrupted(fold: SessionFold, event: InferenceInterrupted, at: int) -> None:
    del at
    if fold.step is not None:
        fold.step.inference_in_doubt = False
        fold.step.inference_given_up = event.is_given_up


@STEP_HANDLERS.of(InferenceRequestAmended)
def _inference_request_amended(fold: SessionFold, event: InferenceRequestAmended, at: int) -> None:
    del at
    if fold.step is not None:
        fold.step.amendments = (*fold.step.amendments, event)


def change_call(fold: SessionFold, position: int, **changes: Any) -> None:
    """Change a call of the open step, if it is there."""
    step = fold.step
    if step is not None and position < len(step.calls):
        step.calls[position] = step.calls[position].changed(**changes)


def settle_call(fold: SessionFold, position: int, status: CallStatus, **changes: Any) -> None:
    """End a call of the open step, if it is there."""
    change_call(fold, position, status=status, in_doubt=False, parked=False, suspension=None, **changes)
    if fold.execution is not None:
        fold.execution.productive = True


def _bill_call(fold: SessionFold, position: int, usage: BilledUsage | None) -> None:
    """Count what the session of a call was billed. It says all of it each time, so only what is new is added."""
    step, execution = fold.step, fold.execution
    if usage is None or step is None or execution is None or position >= len(step.calls):
        return
    more = usage.beyond(step.calls[position].usage)
    execution.bill(more, *more.models)
    execution.usage_below = execution.usage_below + more
    fold.usage, fold.usage_below = fold.usage + more, fold.usage_below + more
    change_call(fold, position, usage=usage)


@STEP_HANDLERS.of(UsageRecorded)
def _usage_recorded(fold: SessionFold, event: UsageRecorded, at: int) -> None:
    del at
    fold.usage = fold.usage + event.usage
    if fold.execution is not None:
        fold.execution.bill(event.usage, *event.usage.models)


@STEP_HANDLERS.of(ToolExecutionStarted)
def _tool_started(fold: SessionFold, event: ToolExecutionStarted, at: int) -> None:
    del at
    if event.attempt == 1 and (execution := fold.execution) is not None:
        execution.tool_calls = {**execution.tool_calls, event.tool: execution.tool_calls.get(event.tool, 0) + 1}
    change_call(
        fold,
        event.position,
        status=CallStatus.RUNNING,
        in_doubt=False,
        due_at=None,
        suspension=None,
        effect_id=event.effect_id,
        effect=event.effect,
        attempt=event.attempt,
        started_with=event.arguments_digest,
    )


@STEP_HANDLERS.of(ToolExecutionCompleted)
def _tool_completed(fold: SessionFold, event: ToolExecutionCompleted, at: int) -> None:
    del at
    _bill_call(fold, event.position, event.usage)
    text = _shown(event.result, event.shown_characters)
    seconds = event.duration_seconds
    settle_call(fold, event.position, CallStatus.COMPLETED, result=event.result, text=text, duration_seconds=seconds)


@STEP_HANDLERS.of(ToolExecutionFailed)
def _tool_failed(fold: SessionFold, event: ToolExecutionFailed, at: int) -> None:
    del at
    step, execution = fold.step, fold.execution
    if step is None or execution is None or event.position >= len(step.calls):
        return
    _bill_call(fold, event.position, event.usage)
    settle_call(
        fold,
        event.position,
        CallStatus.FAILED,
        error=event.error,
        duration_seconds=event.duration_seconds,
        failures=step.calls[event.position].failures + 1,
        awaits_retry=event.may_retry,
    )


@STEP_HANDLERS.of(ToolRetryScheduled)
def _tool_retry_scheduled(fold: SessionFold, event: ToolRetryScheduled, at: int) -> None:
    del at
    change_call(fold, event.position, status=CallStatus.PENDING, error=None, awaits_retry=False, due_at=event.due_at)


@STEP_HANDLERS.of(ToolExecutionInterrupted)
def _tool_interrupted(fold: SessionFold, event: ToolExecutionInterrupted, at: int) -> None:
    del at
    step = fold.step
    if step is None or event.position >= len(step.calls):
        return
    call = step.calls[event.position]
    if call.status is not CallStatus.RUNNING:  # it was settled late, before this could be recorded
        return
    _bill_call(fold, event.position, event.usage)
    if event.then is Then.RERUN:
        # It is simply due again, with the same effect id.
        change_call(fold, event.position, status=CallStatus.PENDING, in_doubt=False)
        return
    error = _unknown_outcome(call.name) if event.then is Then.FAIL else None
    change_call(
        fold,
        event.position,
        status=CallStatus.INTERRUPTED,
        in_doubt=False,
        error=error,
        parked=event.then is Then.PARK,
        duration_seconds=event.duration_seconds,
    )


@STEP_HANDLERS.of(ToolExecutionSuspended)
def _tool_suspended(fold: SessionFold, event: ToolExecutionSuspended, at: int) -> None:
    del at
    step, execution = fold.step, fold.execution
    if step is None or execution is None or event.position >= len(step.calls):
        return
    if step.calls[event.position].status is not CallStatus.RUNNING:
        return
    _bill_call(fold, event.position, event.usage)
    suspension = Suspension(event.session, event.reason, event.until)
    change_call(fold, event.position, status=CallStatus.PENDING, in_doubt=False, suspension=suspension)
    execution.productive = True


@STEP_HANDLERS.of(ToolExecutionSettledLate)
def _tool_settled_late(fold: SessionFold, event: ToolExecutionSettledLate, at: int) -> None:
    del at
    calls = fold.step.calls if fold.step else []
    call = next((call for call in calls if call.effect_id == event.effect_id), None)
    if call is None or call.attempt != event.attempt:
        return
    open_doubt = call.in_doubt or call.status in {CallStatus.INTERRUPTED, CallStatus.PENDING}
    if not open_doubt:
        return
    _bill_call(fold, call.position, event.usage)
    if event.error is not None:
        settle_call(fold, call.position, CallStatus.FAILED, error=event.error)
    else:
        text = _shown(event.result, event.shown_characters)
        settle_call(fold, call.position, CallStatus.COMPLETED, result=event.result, text=text, error=None)


@STEP_HANDLERS.of(ToolCallBlocked)
def _tool_blocked(fold: SessionFold, event: ToolCallBlocked, at: int) -> None:
    del at
    error = ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:ToolCallBlocked", message=event.reason)
    settle_call(fold, event.position, CallStatus.BLOCKED, error=error)


@STEP_HANDLERS.of(ToolCallAmended)
def _tool_amended(fold: SessionFold, event: ToolCallAmended, at: int) -> None:
    del at
    if fold.step is not None and event.position < len(fold.step.calls):
        call = fold.step.calls[event.position].call
        amended = call.model_copy(update={"arguments": event.arguments, "raw": None})
        change_call(fold, event.position, call=amended)


@STEP_HANDLERS.of(ToolCallCancelled)
def _tool_cancelled(fold: SessionFold, event: ToolCallCancelled, at: int) -> None:
    del at
    settle_call(fold, event.position, CallStatus.CANCELLED, text=f"This call was not run: {event.reason}.")
    if event.over_the_limit and fold.execution is not None:
        fold.execution.tool_calls_refused += 1


@STEP_HANDLERS.of(HooksRan)
def _hooks_ran(fold: SessionFold, event: HooksRan, at: int) -> None:
    del at
    if fold.execution is not None:
        ran = (event.hook_type, event.step, event.position)
        fold.execution.hooks_ran = fold.execution.hooks_ran | {ran}
    if event.forbidden_by is None or fold.step is None:
        return
    if event.hook_type in _AROUND_INFERENCE:
        fold.step.forbidden_by = event.forbidden_by
    elif event.hook_type == HookType.PRE_TOOL_USE and event.position is not None:
        change_call(fold, event.position, forbidden_by=event.forbidden_by)


@STEP_HANDLERS.of(StepCompleted)
def _step_completed(fold: SessionFold, event: StepCompleted, at: int) -> None:
    step, execution = fold.step, fold.execution
    if step is None or execution is None:
        return
    errors = _errors_of(step)
    recorded = AgentStep(
        number=event.number,
        started_at=step.started_at,
        reply=step.reply,
        tool_executions=tuple(step.calls),
        errors=errors,
        duration_seconds=event.duration_seconds,
    )
    execution.steps = execution.steps.appended(recorded)
    execution.active_us += round(event.duration_seconds * 1e6)
    # A model call that was given up has answered nothing; one that failed is the error policy's business.
    given_up = step.reply is None and not errors
    if not given_up:
        execution.consecutive_failures = execution.consecutive_failures + 1 if errors else 0
    execution.total_failures += bool(errors)
    if execution.hooks_ran:
        # The hooks of this step and of the way to the next one are all that may still be asked for.
        execution.hooks_ran = frozenset(ran for ran in execution.hooks_ran if ran[1] >= event.number)
    asked_at = fold.origins.last.at if fold.origins.last is not None else at
    for call in step.calls:
        origin = origin_of_call(call, at=asked_at, execution=fold.executions, step=step.number)
        fold.say((call.message(), origin))
    fold.say(*zip(step.queued, step.queued_origins, strict=True))
    execution.unanswered = given_up or any(message.is_user() for message in step.queued)
    fold.step = None


def _errors_of(step: StepFold) -> tuple[StepError, ...]:
    errors = [StepError(error=call.error, tool_name=call.name) for call in step.calls if call.error is not None]
    if step.inference_error is not None:
        errors.append(StepError(error=step.inference_error))
    if step.calls and step.reply is not None and step.reply.finish_reason is FinishReason.LENGTH:
        errors.append(StepError(error=cut_reply_error()))
    return tuple(errors)


def _shown(result: JsonValue, characters: int | None) -> str:
    text = result_text(result)
    return text if characters is None else f"{text[:characters]}…[cut: {len(text) - characters} characters more]"


def _unknown_outcome(tool: str) -> ErrorInfo:
    return ErrorInfo(
        type=ErrorType.TOOL,
        error_class="steptrail:OutcomeUnknown",
        message=f"the outcome of {tool} is unknown: it was cut off while it was running",
    )
