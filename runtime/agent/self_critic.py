"""A self-critic: before an answer ends a run, a judge approves it or sends it back to be revised.

It consists of two hooks and has no state of its own. The number of revisions is kept in the session's metadata. So a
run can go on in another process, and one critic serves any number of runs at once.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

from steptrail.domain.continuation.criteria.answer import AnswerComplete
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.exception_words import unicode_text, words_of
from steptrail.domain.hooks.hook import CallableHook
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import ModelReply, ModelRequest, ToolChoice
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_function, a_text, a_whole
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import StopReason
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.runtime.agent.deadline import seconds_left
from steptrail.runtime.kernel.cancellation import is_asked_to_end
from steptrail.runtime.kernel.given_code import a_model
from steptrail.runtime.kernel.ports import ModelDriver

if TYPE_CHECKING:
    from steptrail.runtime.agent.builder import AgentBuilder

RESULT, ITERATION = "self_critic_result", "self_critic_iteration"
_NAME = "SelfCritic"
_INSTRUCTIONS = (
    "You review the answer of an assistant to a task. Begin your reply with APPROVE when the answer does what was "
    "asked. Otherwise begin it with REVISE and say in a few sentences what has to change."
)
_VERDICT = re.compile(r"\W*(?:(approved?)|(?:revise|rejected?))\b[\s:.,*-]*(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Critique:
    """The judgement of an answer.

    `usage` is the bill for it, and `models` says which models it was for, as far as that is known. The bill counts as
    the run's own.
    """

    approved: bool
    feedback: str = ""
    usage: Usage = Usage()
    models: tuple[ModelUsage, ...] = ()
    problem: str | None = None


Judge: TypeAlias = Callable[[str, str], Critique | Awaitable[Critique]]
"""Judges an answer, given the task and the answer. May be a plain function or a coroutine function."""


class SelfCritic:
    """A capability: `AgentBuilder(…).with_capability(SelfCritic(judge))`.

    `judge` is a function or a model driver. A driver is given `instructions` and begins its reply with APPROVE or
    REVISE. Each final answer with text is judged. An answer that is sent back is followed by the message
    `[CORRECTION REQUIRED - Iteration n]` and another step. If the judge rejects `max_iterations` answers, the run ends
    with `retry_limit`; with 0 no answer is judged. A judge that fails, or does not answer within the run's time, counts
    as having approved. Raises `ConfigurationError` for a judge that is neither, for a `max_iterations` that is no whole
    number from 0, and for instructions that are no text.
    """

    def __init__(
        self, judge: ModelDriver | Judge, *, max_iterations: int = 2, instructions: str = _INSTRUCTIONS
    ) -> None:
        a_whole(max_iterations, "the max_iterations of a self-critic")
        a_text(instructions, "the instructions of a self-critic")
        if isinstance(judge, type) or not callable(judge):
            a_model(judge, "the judge of a self-critic")  # what is no judge would approve of everything
        else:
            a_function(judge, "the judge of a self-critic", "the task", "the answer")
        self._judge, self._most, self._instructions = judge, max_iterations, instructions

    def add_to(self, builder: "AgentBuilder") -> None:
        """Add the two hooks of the critic to a builder."""
        builder.with_hook(HookType.EXECUTION_START, CallableHook(self._begin, _NAME))
        builder.with_hook(HookType.AFTER_STEP, CallableHook(self._review, _NAME))

    def _begin(self, state: HookState) -> HookState:
        # Entries that are there belong to the execution before.
        for key in (RESULT, ITERATION):
            state = state.without_metadata(key) if key in state.metadata else state
        return state

    async def _review(self, state: HookState) -> HookState:
        answer = _answer_to_judge(state)
        if answer is None or self._most == 0:
            return state
        said = state.metadata.get(ITERATION)
        iteration = said if isinstance(said, int) else 0
        asked = state.execution.input if state.execution is not None else None
        task = asked.text if asked is not None else ""
        critique = await self._judged(state, task, answer, iteration)
        try:
            if critique.models or critique.usage != Usage():
                state = state.with_usage(critique.usage, *critique.models)
        except Exception as error:  # a judge of somebody else may have put anything there
            critique = _failed(error)
        iteration += not critique.approved
        result: dict[str, JsonValue] = {"approved": critique.approved, "feedback": critique.feedback}
        if critique.problem is not None:
            result["problem"] = critique.problem
        state = state.with_metadata(RESULT, result).with_metadata(ITERATION, iteration)
        state = state.with_evaluation(self._vote(iteration, approved=critique.approved, why=critique.feedback))
        if critique.approved or iteration >= self._most:
            return state
        return state.with_messages(
            Message.user(f"[CORRECTION REQUIRED - Iteration {iteration}]\n{critique.feedback}".rstrip())
        )

    def _vote(self, iteration: int, *, approved: bool, why: str = "") -> ContinuationEvaluation:
        is_last = not approved and iteration >= self._most
        told = f": {why}" if why else ""
        if approved:
            decision, reason = ContinuationDecision.STOP, "Answer approved"
        elif is_last:
            decision = ContinuationDecision.FORBID
            reason = f"Answer not approved after {iteration}/{self._most} iterations{told}"
        else:
            decision = ContinuationDecision.REQUEST
            reason = f"Answer sent back, iteration {iteration}/{self._most}{told}"
        return ContinuationEvaluation.from_decision(
            criterion_class=_NAME,
            decision=decision,
            reason=reason,
            context={"approved": approved, "iteration": iteration, "maxIterations": self._most},
            stop_reason=StopReason.RETRY_LIMIT if is_last else None,
        )

    async def _judged(self, state: HookState, task: str, answer: str, iteration: int) -> Critique:
        left = seconds_left(state)
        try:
            async with asyncio.timeout(left):
                if not callable(self._judge):
                    return await self._ask(self._judge, task, answer, iteration, left)
                given = self._judge(task, answer)
                critique = _checked(await given if inspect.isawaitable(given) else given)
        except asyncio.CancelledError:
            if is_asked_to_end():
                raise
            return Critique(approved=True, problem="the judge failed: it cancelled itself, and nobody had asked it to")
        except Exception as error:
            return _failed(error)
        return replace(critique, feedback=unicode_text(critique.feedback))

    async def _ask(
        self, driver: ModelDriver, task: str, answer: str, iteration: int, timeout: float | None
    ) -> Critique:
        asked = Message.user(f"The task:\n{task}\n\nThe answer:\n{answer}")
        messages = (Message.system(self._instructions), asked)
        request = ModelRequest(messages=messages, tool_choice=ToolChoice.NONE, timeout=timeout, call_index=iteration)
        reply: ModelReply = await driver.infer(request)
        models = (ModelUsage.of_reply(driver.describe().model, reply.response_model, reply.usage),)
        said = _VERDICT.match(reply.text)
        if said is None:
            problem = unicode_text(f"the judge said neither APPROVE nor REVISE: {reply.text[:200]!r}")
            return Critique(approved=True, usage=reply.usage, models=models, problem=problem)
        feedback = unicode_text(said[2].strip())
        return Critique(approved=said[1] is not None, feedback=feedback, usage=reply.usage, models=models)


def _answer_to_judge(state: HookState) -> str | None:
    """Return the text of a final answer; None after a failed step, for a cut answer, and for any other reply."""
    step = state.current_step
    if step is None or step.has_errors:
        return None
    if state.answers_in_a_type:
        return state.output
    if step.has_tool_calls or not step.text.strip():
        return None
    is_whole = AnswerComplete().decide(state) is not ContinuationDecision.FORBID
    return step.text if is_whole and state.stop_request is None else None


def _failed(error: Exception) -> Critique:
    return Critique(approved=True, problem=f"the judge failed: {type(error).__name__}: {words_of(error)}")


def _checked(critique: object) -> Critique:
    if not isinstance(critique, Critique):
        raise TypeError(f"it returned {type(critique).__name__}, not a Critique")
    if not isinstance(cast(object, critique.approved), bool):
        raise TypeError(f"its `approved` is {type(critique.approved).__name__}, not True or False")
    if not isinstance(cast(object, critique.feedback), str):
        raise TypeError(f"its feedback is {type(critique.feedback).__name__}, not a text")
    return critique
