"""Handlers of the steps of agents and of their model calls."""

from functools import partial

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.step import cut_reply_error
from steptrail.domain.inference import FinishReason
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.output import OutputMode
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.projections.kernel.table import Row
from steptrail.projections.runs_view.calls import ask_for, close_step
from steptrail.projections.runs_view.daily import count_failure, count_model_call
from steptrail.projections.runs_view.memory import InferenceMemory, RunMemory, RunMoment, StepMemory, StreamMemory
from steptrail.projections.runs_view.signature import kind_of
from steptrail.projections.runs_view.spending import Spending
from steptrail.projections.runs_view.tables import INFERENCES, STEPS
from steptrail.projections.runs_view.values import micros, plain, tokens

__all__ = ["STEP_HANDLERS"]

STEP_HANDLERS = Handlers[StreamMemory, [RunMoment], None]()

_NO_END: Row = {**INFERENCES.blanks, **tokens(Usage())}
_OPEN_INFERENCE: Row = {"status": "in_progress"}
_OPEN_STEP: Row = {"status": "in_progress", "active_us": 0, "errors": 0, "cost_nanos": None, "end_version": None}


@STEP_HANDLERS.of(stored.StepStarted)
def _step_started(memory: StreamMemory, event: stored.StepStarted, moment: RunMoment) -> None:
    if (run := memory.run) is None:
        return
    run.step = step = StepMemory(number=event.number, started_at=moment.at, version=moment.version)
    run.newest_step = event.number
    _put_step(run, step, moment)


def _put_step(run: RunMemory, step: StepMemory, moment: RunMoment) -> None:
    moment.changes.put_later(STEPS, (run.execution, step.number), partial(_step_row, run, step))


def _step_row(run: RunMemory, step: StepMemory) -> Row:
    return {
        "execution": run.execution,
        "step": step.number,
        "started_at": step.started_at,
        "tool_calls": len(step.calls),
        **tokens(step.used.usage),
        "version": step.version,
        **(_OPEN_STEP if step.said is None else step.said),
    }


@STEP_HANDLERS.of(stored.InferenceStarted)
def _inference_started(memory: StreamMemory, event: stored.InferenceStarted, moment: RunMoment) -> None:
    if (run := memory.run) is None or (step := run.step) is None:
        return
    step.takes_answers_in_calls = event.output_mode is OutputMode.TOOL
    step.inference = begun = InferenceMemory(event.attempt, event.model, moment.at, moment.version)
    key = (run.execution, step.number, begun.attempt)
    moment.changes.put_later(INFERENCES, key, partial(_inference_row, run, step, begun, _OPEN_INFERENCE))


def _inference_row(run: RunMemory, step: StepMemory, begun: InferenceMemory, said: Row) -> Row:
    return {
        "execution": run.execution,
        "step": step.number,
        "attempt": begun.attempt,
        "model": plain(begun.model),
        "started_at": begun.started_at,
        "version": begun.version,
        **_NO_END,
        **said,
    }


def _end_inference(memory: StreamMemory, run: RunMemory, said: Row, moment: RunMoment) -> None:
    """Write how the open model call has ended, and count it."""
    if (step := run.step) is None or (begun := step.inference) is None:
        return
    step.inference = None
    row = _inference_row(run, step, begun, {**said, "end_version": moment.version})
    moment.changes.put(INFERENCES, row)
    count_model_call(memory, run, row, moment)
    count_failure(memory, run, row, moment)


@STEP_HANDLERS.of(stored.InferenceCompleted)
def _inference_completed(memory: StreamMemory, event: stored.InferenceCompleted, moment: RunMoment) -> None:
    if (run := memory.run) is None or (step := run.step) is None:
        return
    reply, asked_for = event.reply, step.inference.model if step.inference is not None else ""
    used = Spending(reply.usage, (ModelUsage.of_reply(asked_for, reply.response_model, reply.usage),))
    run.own.add(used.usage, used.models)
    step.used, step.has_reply, step.is_cut = used, True, reply.finish_reason is FinishReason.LENGTH
    said: Row = {
        "status": "completed",
        "answered_by": None if reply.response_model is None else plain(reply.response_model),
        "finish_reason": reply.finish_reason.value,
        "raw_finish_reason": None if reply.raw_finish_reason is None else plain(reply.raw_finish_reason),
        "duration_us": micros(event.duration_seconds),
        **tokens(reply.usage),
        "cost_nanos": used.nanos_of_known(run.prices),
    }
    _end_inference(memory, run, said, moment)
    ask_for(run, step, [call.name for call in reply.tool_calls], moment)
    _put_step(run, step, moment)


@STEP_HANDLERS.of(stored.InferenceFailed)
def _inference_failed(memory: StreamMemory, event: stored.InferenceFailed, moment: RunMoment) -> None:
    if (run := memory.run) is None or (step := run.step) is None:
        return
    step.error = kind_of(event.error)
    step.error.put(moment.changes)
    said: Row = {"status": "failed", "duration_us": micros(event.duration_seconds), **step.error.columns()}
    _end_inference(memory, run, said, moment)


@STEP_HANDLERS.of(stored.InferenceInterrupted)
def _inference_interrupted(memory: StreamMemory, event: stored.InferenceInterrupted, moment: RunMoment) -> None:
    if (run := memory.run) is not None:
        _end_inference(memory, run, {"status": "interrupted", "cut_by": event.reason}, moment)


@STEP_HANDLERS.of(stored.StepCompleted)
def _step_completed(memory: StreamMemory, event: stored.StepCompleted, moment: RunMoment) -> None:
    if (run := memory.run) is None or (step := run.step) is None:
        return
    errors = [call.error for call in step.calls if call.error is not None]
    if step.error is not None:
        errors.append(step.error)
    if step.is_cut and any(not call.row["is_answer"] for call in step.calls):
        errors.append(kind_of(cut_reply_error()))
        errors[-1].put(moment.changes)
    is_given_up = not step.has_reply and not errors
    run.steps += 1
    run.active_us += micros(event.duration_seconds)
    if not is_given_up:
        run.failure = errors[0] if errors else None
    if errors:
        run.errors += 1
        run.wasted.add(step.used.usage, step.used.models)
    step.said = {
        "status": "failed" if errors else "given_up" if is_given_up else "completed",
        "active_us": micros(event.duration_seconds),
        "errors": len(errors),
        "cost_nanos": step.used.nanos_of_known(run.prices) if step.has_reply else None,
        "end_version": moment.version,
    }
    _put_step(run, step, moment)
    close_step(memory, run, moment)
