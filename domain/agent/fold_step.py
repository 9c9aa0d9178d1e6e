"""Fold handlers of steps. They make messages of the model's replies and of tool results, in canonical order."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.fold import ExecutionFold, SessionFold, StepFold
from steptrail.domain.agent.fold_calls import move_call
from steptrail.domain.agent.fold_compaction import note_what_fits
from steptrail.domain.agent.origin import MessageOrigin, origin_of_call
from steptrail.domain.agent.step import AgentStep, ToolExecution, asks_for_tools, cut_reply_error
from steptrail.domain.failures import StepError
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import CUT, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.messages import Message, MessageRole
from steptrail.domain.output import ASKED_IN_THE_END, OutputMode, OutputVerdict, StepOutput, json_in, problem_text
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.usage import ModelUsage

STEP_HANDLERS = Handlers[SessionFold, [int], None]()

_AROUND_INFERENCE = frozenset({HookType.BEFORE_INFERENCE, HookType.AFTER_INFERENCE})
"""The hooks that can forbid the rest of a step. Hooks about a tool call can forbid that call only."""


@STEP_HANDLERS.of(stored.StepStarted)
def _step_started(fold: SessionFold, event: stored.StepStarted, at: int) -> None:
    fold.step = StepFold(number=event.number, started_at=at, clock=Stopwatch(since=at))
    if fold.execution is not None:
        if fold.execution.answer_due and not (fold.origins.last is not None and fold.origins.last.output):
            fold.say(Message.user(ASKED_IN_THE_END), MessageOrigin(at, fold.executions, output=True))
        fold.execution.retry = None
        fold.execution.unanswered = False
        if fold.execution.agent.instructions:
            fold.execution.instructed = tuple(spec.name for spec in fold.execution.agent.instructions)


@STEP_HANDLERS.of(stored.InstructionsResolved)
def _instructions_resolved(fold: SessionFold, event: stored.InstructionsResolved, at: int) -> None:
    texts = {name: text for name, text in fold.instructions.items() if name != event.name}
    fold.instructions = {**texts, event.name: event.text} if event.text else texts


@STEP_HANDLERS.of(stored.InferenceStarted)
def _inference_started(fold: SessionFold, event: stored.InferenceStarted, at: int) -> None:
    if fold.step is not None:
        fold.step.inference_attempt, fold.step.inference_in_doubt = event.attempt, False
        fold.step.model, fold.step.output_mode = event.model, event.output_mode


@STEP_HANDLERS.of(stored.InferenceCompleted)
def _inference_completed(fold: SessionFold, event: stored.InferenceCompleted, at: int) -> None:
    step, execution, reply = fold.step, fold.execution, event.reply
    if step is None or execution is None:
        return
    fold.inferences += 1
    fold.charge(reply.usage, ModelUsage.of_reply(step.model, reply.response_model, reply.usage))
    execution.productive = True
    fold.context_tokens = reply.usage.all_input
    if execution.compactions:
        note_what_fits(fold, execution)
    step.reply = reply
    answers = execution.agent.name_of_answers(step.output_mode)
    step.calls = [
        ToolExecution(position=i, call=call)
        if call.name != answers
        else ToolExecution(position=i, call=call, phase=CallPhase.ANSWER, is_answer=True)
        for i, call in enumerate(reply.tool_calls)
    ]
    if reply.parts:
        is_answer = bool(step.calls) and not asks_for_tools(step.calls)
        origin = MessageOrigin(at, fold.executions, step.number, is_answer=is_answer)
        fold.say(Message(role=MessageRole.ASSISTANT, parts=reply.parts), origin)


@STEP_HANDLERS.of(stored.InferenceFailed)
def _inference_failed(fold: SessionFold, event: stored.InferenceFailed, at: int) -> None:
    fold.inferences += 1
    if fold.step is not None:
        fold.step.inference_error = event.error
    if fold.execution is not None:
        fold.execution.productive = True


@STEP_HANDLERS.of(stored.InferenceInterrupted)
def _inference_interrupted(fold: SessionFold, event: stored.InferenceInterrupted, at: int) -> None:
    if fold.step is not None:
        fold.step.inference_in_doubt = False
        fold.step.inference_given_up = event.is_given_up
    fold.end_at(event.deadline)


@STEP_HANDLERS.of(stored.InferenceRequestAmended)
def _inference_request_amended(fold: SessionFold, event: stored.InferenceRequestAmended, at: int) -> None:
    if fold.step is not None:
        fold.step.amendments = (*fold.step.amendments, event)


@STEP_HANDLERS.of(stored.UsageRecorded)
def _usage_recorded(fold: SessionFold, event: stored.UsageRecorded, at: int) -> None:
    fold.charge(event.usage, *event.usage.models)


@STEP_HANDLERS.of(stored.HooksRan)
def _hooks_ran(fold: SessionFold, event: stored.HooksRan, at: int) -> None:
    if fold.execution is not None:
        ran = (event.hook_type, event.step, event.position)
        fold.execution.hooks_ran = fold.execution.hooks_ran | {ran}
    if event.forbidden_by is None or fold.step is None:
        return
    if event.hook_type in _AROUND_INFERENCE:
        fold.step.forbidden_by = event.forbidden_by
    elif event.hook_type == HookType.PRE_TOOL_USE and event.position is not None:
        move_call(fold, event.position, event, forbidden_by=event.forbidden_by)


@STEP_HANDLERS.of(stored.AnswerAccepted)
def _answer_accepted(fold: SessionFold, event: stored.AnswerAccepted, at: int) -> None:
    step, execution = fold.step, fold.execution
    if step is None or execution is None or step.reply is None:
        return
    value = event.value if event.is_changed else _answer_in(step.reply, execution, event.position)
    step.output = StepOutput(verdict=OutputVerdict.ACCEPTED, value=value)
    execution.rejections = 0
    move_call(fold, event.position, event, text="The answer was taken.")


def _answer_in(reply: ModelReply, execution: ExecutionFold, position: int | None) -> JsonValue:
    """Return the JSON of an accepted answer. The fold is total: None for one that is none after all."""
    calls = reply.tool_calls
    try:
        value = json_in(reply.text if position is None else calls[position])
        return execution.agent.output.unwrapped(value) if execution.agent.output is not None else value
    except (ValueError, LookupError):
        return None


@STEP_HANDLERS.of(stored.AnswerRejected)
def _answer_rejected(fold: SessionFold, event: stored.AnswerRejected, at: int) -> None:
    if fold.step is None or fold.execution is None:
        return
    fold.step.output = StepOutput(verdict=OutputVerdict.REJECTED, problems=event.problems)
    fold.execution.rejections += 1
    fold.step.is_told_in_a_message = move_call(fold, event.position, event, text=problem_text(event.problems)) is None


@STEP_HANDLERS.of(stored.StepCompleted)
def _step_completed(fold: SessionFold, event: stored.StepCompleted, at: int) -> None:
    step, execution = fold.step, fold.execution
    if step is None or execution is None:
        return
    errors = errors_of(step)
    recorded = AgentStep(
        number=event.number,
        started_at=step.started_at,
        reply=step.reply,
        tool_executions=tuple(step.calls),
        errors=errors,
        duration_seconds=event.duration_seconds,
        output=step.output or _without_verdict(step, execution, errors),
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
    newest = fold.origins.last
    asked_at = newest.at if newest is not None else at
    for call in step.calls:
        fold.say(call.message(), origin_of_call(call, at=asked_at, execution=fold.executions, step=step.number))
    if step.output is not None and step.is_told_in_a_message:
        problem = Message.user(problem_text(step.output.problems))
        fold.say(problem, MessageOrigin(at, fold.executions, output=True))
    execution.unanswered = given_up
    for message, origin in zip(step.queued, step.queued_origins, strict=True):
        fold.say(message, origin)
        execution.unanswered = execution.unanswered or message.is_user()
    if step.reply is not None and execution.agent.output is not None:
        again = recorded.output_verdict in {OutputVerdict.DUE, OutputVerdict.REJECTED}
        is_last = execution.agent.output.mode is OutputMode.LAST
        execution.answer_due = is_last and again and not execution.unanswered
    fold.step = None


def _without_verdict(step: StepFold, execution: ExecutionFold, errors: tuple[StepError, ...]) -> StepOutput | None:
    """Return where a step without a verdict stands: that its answer was not judged, or that the answer is due.

    It is due after a reply that asks for no tools, and that was not asked for the answer yet.
    """
    if any(call.is_answer for call in step.calls):
        return StepOutput(verdict=OutputVerdict.UNJUDGED)
    output = execution.agent.output
    if output is None or output.mode is not OutputMode.LAST or step.output_mode is not None:
        return None
    asked_for_none = step.reply is not None and step.reply.is_whole and not step.calls and not errors
    return StepOutput(verdict=OutputVerdict.DUE) if asked_for_none else None


def errors_of(step: StepFold) -> tuple[StepError, ...]:
    """Return the errors of the step: of failed calls, of the model call, and of a reply that was cut."""
    errors = [StepError(error=call.error, tool_name=call.name) for call in step.calls if call.error is not None]
    if step.inference_error is not None:
        errors.append(StepError(error=step.inference_error))
    if step.runs_no_calls and step.reply is not None and step.reply.finish_reason in CUT and asks_for_tools(step.calls):
        errors.append(StepError(error=cut_reply_error(step.reply.finish_reason)))
    return tuple(errors)
