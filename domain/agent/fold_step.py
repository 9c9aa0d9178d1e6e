"""Fold handlers of steps. They make messages of the model's replies and of tool results, in canonical order."""

from steptrail.domain.agent.events import (
    HooksRan,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceRequestAmended,
    InferenceStarted,
    StepCompleted,
    StepStarted,
    UsageRecorded,
)
from steptrail.domain.agent.fold import SessionFold, StepFold
from steptrail.domain.agent.fold_calls import move_call
from steptrail.domain.agent.origin import MessageOrigin, origin_of_call
from steptrail.domain.agent.step import AgentStep, ToolExecution, cut_reply_error
from steptrail.domain.failures import StepError
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import FinishReason
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.messages import Message, MessageRole
from steptrail.domain.usage import ModelUsage

__all__ = ["STEP_HANDLERS"]

STEP_HANDLERS = Handlers[SessionFold, [int], None]()

_AROUND_INFERENCE = frozenset({HookType.BEFORE_INFERENCE, HookType.AFTER_INFERENCE})
"""The hooks that can forbid the rest of a step. Hooks about a tool call can forbid that call only."""


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
        fold.say(Message(role=MessageRole.ASSISTANT, parts=reply.parts), origin)


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
    fold.end_at(event.deadline)


@STEP_HANDLERS.of(InferenceRequestAmended)
def _inference_request_amended(fold: SessionFold, event: InferenceRequestAmended, at: int) -> None:
    del at
    if fold.step is not None:
        fold.step.amendments = (*fold.step.amendments, event)


@STEP_HANDLERS.of(UsageRecorded)
def _usage_recorded(fold: SessionFold, event: UsageRecorded, at: int) -> None:
    del at
    fold.usage = fold.usage + event.usage
    if fold.execution is not None:
        fold.execution.bill(event.usage, *event.usage.models)


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
        move_call(fold, event.position, event, forbidden_by=event.forbidden_by)


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
    # A model call that was given up leaves the input unanswered. After one that failed, the error policy decides.
    given_up = step.reply is None and not errors
    if not given_up:
        execution.consecutive_failures = execution.consecutive_failures + 1 if errors else 0
    execution.total_failures += bool(errors)
    if execution.hooks_ran:
        # Only the hooks of this step, and of the boundary after it, can still be asked for.
        execution.hooks_ran = frozenset(ran for ran in execution.hooks_ran if ran[1] >= event.number)
    asked_at = fold.origins.last.at if fold.origins.last is not None else at
    for call in step.calls:
        fold.say(call.message(), origin_of_call(call, at=asked_at, execution=fold.executions, step=step.number))
    for message, origin in zip(step.queued, step.queued_origins, strict=True):
        fold.say(message, origin)
    execution.unanswered = given_up or any(message.is_user() for message in step.queued)
    fold.step = None


def _errors_of(step: StepFold) -> tuple[StepError, ...]:
    errors = [StepError(error=call.error, tool_name=call.name) for call in step.calls if call.error is not None]
    if step.inference_error is not None:
        errors.append(StepError(error=step.inference_error))
    if step.calls and step.reply is not None and step.reply.finish_reason is FinishReason.LENGTH:
        errors.append(StepError(error=cut_reply_error()))
    return tuple(errors)
