"""Handlers of the steps of agents and of their model calls."""

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.step import cut_reply_error
from steptrail.domain.inference import CUT
from steptrail.domain.kernel.handlers import Handlers
from steptrail.domain.output import OutputMode
from steptrail.domain.shared.stopwatch import Stopwatch
from steptrail.domain.storable import plain
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.projections.kernel.table import Row, Scalar
from steptrail.projections.runs_view.calls import ask_for, close_step
from steptrail.projections.runs_view.daily import count_failure, count_model_call
from steptrail.projections.runs_view.memory import InferenceMemory, RunMemory, RunMoment, StepMemory
from steptrail.projections.runs_view.signature import kind_of
from steptrail.projections.runs_view.spending import Spending
from steptrail.projections.runs_view.tables import INFERENCES, STEPS
from steptrail.projections.runs_view.values import micros, tokens

STEP_HANDLERS = Handlers[RunMemory, [RunMoment], None]()

_NEW_INFERENCE: Row = {**INFERENCES.blanks, **tokens(Usage()), "status": "in_progress"}
_NEW_STEP: Row = {
    **STEPS.blanks,
    **tokens(Usage()),
    "status": "in_progress",
    "active_us": 0,
    "errors": 0,
    "tool_calls": 0,
}


@STEP_HANDLERS.of(stored.StepStarted)
def _step_started(run: RunMemory, event: stored.StepStarted, moment: RunMoment) -> None:
    row: dict[str, Scalar] = {
        **_NEW_STEP,
        "execution": run.execution,
        "step": event.number,
        "started_at": moment.at,
        "version": moment.version,
    }
    run.step, run.newest_step = StepMemory(event.number, row), event.number
    moment.changes.put(STEPS, row)


@STEP_HANDLERS.of(stored.InferenceStarted)
def _inference_started(run: RunMemory, event: stored.InferenceStarted, moment: RunMoment) -> None:
    if (step := run.step) is None:
        return
    step.takes_answers_in_calls = event.output_mode is OutputMode.TOOL
    row: dict[str, Scalar] = {
        **_NEW_INFERENCE,
        "execution": run.execution,
        "step": step.number,
        "attempt": event.attempt,
        "model": plain(event.model),
        "started_at": moment.at,
        "version": moment.version,
    }
    step.inference = InferenceMemory(event.model, row)
    moment.changes.put(INFERENCES, row)


def _end_inference(run: RunMemory, said: Row, moment: RunMoment) -> None:
    """Write how the open model call has ended, and count it."""
    if (step := run.step) is None or (begun := step.inference) is None:
        return
    step.inference, row = None, begun.row
    row.update(said, end_version=moment.version)
    moment.changes.put(INFERENCES, row)
    count_model_call(run, row, moment)
    count_failure(run, row, moment)


@STEP_HANDLERS.of(stored.InferenceCompleted)
def _inference_completed(run: RunMemory, event: stored.InferenceCompleted, moment: RunMoment) -> None:
    if (step := run.step) is None:
        return
    reply, asked_for = event.reply, step.inference.model if step.inference is not None else ""
    used = Spending(reply.usage, (ModelUsage.of_reply(asked_for, reply.response_model, reply.usage),))
    run.own.add(used.usage, used.models)
    step.used = used
    of_tokens = tokens(reply.usage)
    said: Row = {
        "status": "completed",
        "answered_by": None if reply.response_model is None else plain(reply.response_model),
        "finish_reason": reply.finish_reason.value,
        "raw_finish_reason": None if reply.raw_finish_reason is None else plain(reply.raw_finish_reason),
        "duration_us": micros(event.duration_seconds),
        **of_tokens,
        "cost_nanos": used.nanos_of_known(run.prices),
    }
    _end_inference(run, said, moment)
    ask_for(run, step, [call.name for call in reply.tool_calls], moment)
    step.row.update(of_tokens, tool_calls=len(step.calls))
    if reply.finish_reason in CUT and any(not call.row["is_answer"] for call in step.calls):
        step.error = kind_of(cut_reply_error(reply.finish_reason)).written(moment.changes)
    moment.changes.put(STEPS, step.row)


@STEP_HANDLERS.of(stored.InferenceFailed)
def _inference_failed(run: RunMemory, event: stored.InferenceFailed, moment: RunMoment) -> None:
    if (step := run.step) is None:
        return
    step.error = kind_of(event.error).written(moment.changes)
    said: Row = {"status": "failed", "duration_us": micros(event.duration_seconds), **step.error.columns()}
    _end_inference(run, said, moment)


@STEP_HANDLERS.of(stored.InferenceInterrupted)
def _inference_interrupted(run: RunMemory, event: stored.InferenceInterrupted, moment: RunMoment) -> None:
    _end_inference(run, {"status": "interrupted", "cut_by": event.reason}, moment)


@STEP_HANDLERS.of(stored.StepCompleted)
def _step_completed(run: RunMemory, event: stored.StepCompleted, moment: RunMoment) -> None:
    if (step := run.step) is None:
        return
    errors = [call.error for call in step.calls if call.error is not None]
    if step.error is not None:
        errors.append(step.error)
    is_given_up, active = step.used is None and not errors, micros(event.duration_seconds)
    run.steps += 1
    run.active = Stopwatch(run.active.counted_us + active)
    if not is_given_up:
        run.failure = errors[0] if errors else None
    if errors:
        run.errors += 1
        if step.used is not None:
            run.wasted.add(step.used.usage, step.used.models)
    step.row.update(
        status="failed" if errors else "given_up" if is_given_up else "completed",
        active_us=active,
        errors=len(errors),
        cost_nanos=None if step.used is None else step.used.nanos_of_known(run.prices),
        end_version=moment.version,
    )
    moment.changes.put(STEPS, step.row)
    close_step(run, moment)
