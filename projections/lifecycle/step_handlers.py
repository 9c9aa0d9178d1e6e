"""The lifecycle events that follow from stored events of steps, model calls, hooks and decisions."""

from pydantic import JsonValue

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.step import cut_reply_error
from steptrail.domain.continuation.outcome import ContinuationOutcome
from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import FinishReason
from steptrail.projections.lifecycle.base import in_ms
from steptrail.projections.lifecycle.steps import (
    AgentStepCompleted,
    AgentStepStarted,
    DecisionTaken,
    HookExecuted,
    InferenceRequestFailed,
    InferenceRequestStarted,
    InferenceResponseReceived,
    TokenUsageReported,
    ValidationFailed,
)
from steptrail.projections.lifecycle.telling import Met, Tellers, Told
from steptrail.projections.rendering import why_cut

__all__ = ["OF_STEPS"]

OF_STEPS = Tellers()


@OF_STEPS.of(stored.StepStarted)
def _step_started(met: Met, event: stored.StepStarted) -> Told:
    yield AgentStepStarted(**met.head(), step=event.number, messages=len(met.state.messages), tools=met.tools)


@OF_STEPS.of(stored.InferenceStarted)
def _inference_started(met: Met, event: stored.InferenceStarted) -> Told:
    yield InferenceRequestStarted(
        **met.head(), step=event.step, attempt=event.attempt, messages=event.message_count, model=event.model
    )


@OF_STEPS.of(stored.InferenceCompleted)
def _inference_completed(met: Met, event: stored.InferenceCompleted) -> Told:
    reply = event.reply
    yield InferenceResponseReceived(
        **met.head(),
        step=met.step,
        input_tokens=reply.usage.all_input,
        output_tokens=reply.usage.all_output,
        finish_reason=reply.finish_reason.value,
        duration_ms=in_ms(event.duration_seconds),
    )
    if reply.finish_reason is FinishReason.LENGTH and reply.tool_calls:
        yield ValidationFailed(
            **met.head(), step=met.step, validation_type="reply", errors=(cut_reply_error().message,)
        )


@OF_STEPS.of(stored.InferenceFailed)
def _inference_failed(met: Met, event: stored.InferenceFailed) -> Told:
    error, took = event.error, in_ms(event.duration_seconds)
    yield InferenceRequestFailed(
        **met.head(), step=met.step, error=error.message, error_type=error.type.value, duration_ms=took
    )
    if error.type is ErrorType.VALIDATION:
        yield ValidationFailed(**met.head(), step=met.step, validation_type="reply", errors=(error.message,))


@OF_STEPS.of(stored.InferenceInterrupted)
def _inference_interrupted(met: Met, event: stored.InferenceInterrupted) -> Told:
    why = f"cut off: {why_cut(event)}"
    yield InferenceRequestFailed(**met.head(), step=met.step, error=why, error_type="interrupted", duration_ms=None)


@OF_STEPS.of(stored.HooksRan)
def _hooks_ran(met: Met, event: stored.HooksRan) -> Told:
    call = met.call(event.position)
    for hook in event.hooks:
        yield HookExecuted(**met.head(), hook_type=event.hook_type, hook=hook, tool=call.name if call else None)


@OF_STEPS.of(stored.UsageRecorded)
def _usage_recorded(met: Met, event: stored.UsageRecorded) -> Told:
    if event.usage.total:
        yield TokenUsageReported(**met.head(), operation="hook", usage=event.usage, context={"hook": event.hook})


@OF_STEPS.of(stored.StepCompleted)
def _step_completed(met: Met, event: stored.StepCompleted) -> Told:
    step = met.state.current_step
    if step is None:
        return
    yield AgentStepCompleted(
        **met.head(),
        step=event.number,
        has_tool_calls=step.has_tool_calls,
        error_messages=tuple(each.error.message for each in step.errors),
        usage=step.usage,
        finish_reason=step.finish_reason and step.finish_reason.value,
        duration_ms=in_ms(event.duration_seconds),
    )
    if step.usage.total:
        context: dict[str, JsonValue] = {"step": event.number, "hasToolCalls": step.has_tool_calls}
        yield TokenUsageReported(**met.head(), operation="step", usage=step.usage, context=context)


@OF_STEPS.of(stored.ContinuationEvaluated)
def _decided(met: Met, event: stored.ContinuationEvaluated) -> Told:
    whole = met.state.last_continuation_outcome
    votes = whole.evaluations if whole is not None else ()
    if event.phase == "resume" and event.should_continue:
        # The guards agreed to go on: what was decided before still stands, and these votes are not kept.
        votes = met.guard_votes_before
    outcome = ContinuationOutcome(
        decision=event.decision,
        should_continue=event.should_continue,
        resolved_by=event.resolved_by,
        stop_reason=event.stop_reason,
        evaluations=votes,
    )
    yield DecisionTaken(**met.head(), step=event.step, phase=event.phase, outcome=outcome)
