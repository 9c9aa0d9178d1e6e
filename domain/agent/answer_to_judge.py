"""Says what is due for the answer of a step, once the other calls of its reply have ended."""

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.effects import JudgeAnswer, Record
from steptrail.domain.agent.events import ToolCallCancelled
from steptrail.domain.agent.fold import ExecutionFold, StepFold
from steptrail.domain.output import OutputMode

BROKEN_VALIDATOR = "output_validator"
"""The type of the hooks that `HooksRan` names when a validator broke. Then the answer is not judged again."""


def answer_to_judge(execution: ExecutionFold, step: StepFold) -> JudgeAnswer | Record | None:
    """Return that the answer is to be judged, or the end of calls whose answer is not taken; None when nothing is due.

    An answer in a call is taken only if all the other calls of the reply have succeeded. If the reply holds several
    answers, the first one that fits is taken.
    """
    if step.reply is None:
        return None
    why_not = _why_not_judged(execution, step)
    if why_not is None and (step.output_mode is OutputMode.TOOL or not step.calls):
        return JudgeAnswer(step.number)
    left = [call.position for call in step.calls if call.phase is CallPhase.ANSWER]
    ends = [ToolCallCancelled(position=position, reason=why_not or "") for position in left]
    return Record(tuple(ends)) if ends else None


def _why_not_judged(execution: ExecutionFold, step: StepFold) -> str | None:
    others = [call for call in step.calls if not call.is_answer]
    answers = len(step.calls) - len(others)
    if execution.agent.output is None:  # it has changed since the model was asked
        return "the agent answers in text"
    if step.output is not None:
        return "another answer of the same reply was judged"
    if execution.stop_request is not None:
        return f"{execution.stop_request.by} stopped the run"
    if step.reply is None or not step.reply.is_whole:
        return "the reply is not whole"
    if step.forbidden_by is not None:
        return f"the hook {step.forbidden_by} forbade it"
    if (BROKEN_VALIDATOR, step.number, None) in execution.hooks_ran:
        return "a validator of it failed"
    if any(call.phase is not CallPhase.COMPLETED for call in others) or (others and not answers):
        return "not all the other calls of the same reply have succeeded"
    return None
