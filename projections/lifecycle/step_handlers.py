"""The lifecycle events that follow from stored events of steps, model calls, hooks and decisions."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.step import cut_reply_error
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import FinishReason
from steptrail.domain.json_value import JsonValue
from steptrail.domain.usage import Usage
from steptrail.projections.lifecycle import steps
from steptrail.projections.lifecycle.base import in_ms
from steptrail.projections.lifecycle.handler_types import LifecycleEvents, LifecycleHandlers, Moment
from steptrail.projections.rendering import why_cut

OF_STEPS = LifecycleHandlers()


@OF_STEPS.of(stored.StepStarted)
def _step_started(moment: Moment, event: stored.StepStarted) -> LifecycleEvents:
    yield steps.AgentStepStarted(
        **moment.head(), step=event.number, messages=len(moment.state.messages), tools=moment.tools
    )


@OF_STEPS.of(stored.InferenceStarted)
def _inference_started(moment: Moment, event: stored.InferenceStarted) -> LifecycleEvents:
    yield steps.InferenceRequestStarted(
        **moment.head(), step=event.step, attempt=event.attempt, messages=event.message_count, model=event.model
    )


@OF_STEPS.of(stored.InferenceCompleted)
def _inference_completed(moment: Moment, event: stored.InferenceCompleted) -> LifecycleEvents:
    reply = event.reply
    yield steps.InferenceResponseReceived(
        **moment.head(),
        step=moment.step,
        input_tokens=reply.usage.all_input,
        output_tokens=reply.usage.all_output,
        finish_reason=reply.finish_reason.value,
        duration_ms=in_ms(event.duration_seconds),
    )
    if reply.finish_reason is FinishReason.LENGTH and reply.tool_calls:
        yield steps.ValidationFailed(
            **moment.head(),
            step=moment.step,
            validation_type="reply",
            errors=(cut_reply_error(reply.finish_reason).message,),
        )


@OF_STEPS.of(stored.InferenceFailed)
def _inference_failed(moment: Moment, event: stored.InferenceFailed) -> LifecycleEvents:
    error, took = event.error, in_ms(event.duration_seconds)
    yield steps.InferenceRequestFailed(
        **moment.head(), step=moment.step, error=error.message, error_type=error.type.value, duration_ms=took
    )
    if error.type is ErrorType.VALIDATION:
        yield steps.ValidationFailed(
            **moment.head(), step=moment.step, validation_type="reply", errors=(error.message,)
        )


@OF_STEPS.of(stored.InferenceInterrupted)
def _inference_interrupted(moment: Moment, event: stored.InferenceInterrupted) -> LifecycleEvents:
    why = f"cut off: {why_cut(event)}"
    yield steps.InferenceRequestFailed(
        **moment.head(), step=moment.step, error=why, error_type="interrupted", duration_ms=None
    )


@OF_STEPS.of(stored.AnswerRejected)
def _answer_rejected(moment: Moment, event: stored.AnswerRejected) -> LifecycleEvents:
    errors = tuple(map(str, event.problems))
    yield steps.ValidationFailed(**moment.head(), step=moment.step, validation_type="output", errors=errors)


@OF_STEPS.of(stored.HooksRan)
def _hooks_ran(moment: Moment, event: stored.HooksRan) -> LifecycleEvents:
    call = moment.call(event.position)
    for hook in event.hooks:
        yield steps.HookExecuted(
            **moment.head(), hook_type=event.hook_type, hook=hook, tool=call.name if call else None
        )


@OF_STEPS.of(stored.UsageRecorded)
def _usage_recorded(moment: Moment, event: stored.UsageRecorded) -> LifecycleEvents:
    return _used(moment, "hook", event.usage, {"hook": event.hook})


@OF_STEPS.of(stored.ConversationCompacted)
def _compacted(moment: Moment, event: stored.ConversationCompacted) -> LifecycleEvents:
    return _used(moment, "compaction", event.usage, {"by": event.by})


def _used(moment: Moment, operation: str, usage: Usage | None, context: dict[str, JsonValue]) -> LifecycleEvents:
    if usage is not None and usage.total:
        yield steps.TokenUsageReported(**moment.head(), operation=operation, usage=usage, context=context)


@OF_STEPS.of(stored.StepCompleted)
def _step_completed(moment: Moment, event: stored.StepCompleted) -> LifecycleEvents:
    step = moment.state.current_step
    if step is None:
        return
    yield steps.AgentStepCompleted(
        **moment.head(),
        step=event.number,
        has_tool_calls=step.has_tool_calls,
        has_text=bool(step.text),
        error_messages=tuple(each.error.message for each in step.errors),
        usage=step.usage,
        finish_reason=step.finish_reason and step.finish_reason.value,
        duration_ms=in_ms(event.duration_seconds),
    )
    yield from _used(moment, "step", step.usage, {"step": event.number, "hasToolCalls": step.has_tool_calls})


@OF_STEPS.of(stored.ContinuationEvaluated)
def _decided(moment: Moment, event: stored.ContinuationEvaluated) -> LifecycleEvents:
    whole = moment.state.last_continuation_outcome
    votes = whole.evaluations if whole is not None else ()
    if event.phase == "resume" and event.should_continue:
        # The guards agreed to go on: what was decided before still stands, and these votes are not kept.
        votes = moment.guard_votes_before
    outcome = ContinuationOutcome(
        decision=event.decision,
        should_continue=event.should_continue,
        resolved_by=event.resolved_by,
        stop_reason=event.stop_reason,
        evaluations=votes,
    )
    yield steps.DecisionTaken(**moment.head(), step=event.step, phase=event.phase, outcome=outcome)
