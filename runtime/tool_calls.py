"""Tool calls as effects: recorded before they run, and recorded however they end.

Whatever a tool does to the run goes through its outcome: the model sees it, the error policy decides about the run.
"""

from functools import partial
from typing import Literal, cast

from pydantic import JsonValue

from steptrail.domain.agent.events import (
    ToolCallCancelled,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionStarted,
)
from steptrail.domain.agent.ids import ExecutionId, effect_id
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.tools import ToolEffect, result_text
from steptrail.runtime.agent import Agent
from steptrail.runtime.agent_journal import AgentJournal
from steptrail.runtime.capture import capture
from steptrail.runtime.deadline import seconds_left, shortest
from steptrail.runtime.faults import Reach
from steptrail.runtime.in_flight import Cut, perform
from steptrail.runtime.tool_port import (
    RunnableTool,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolSucceeded,
    ToolTimedOut,
)

__all__ = ["ToolCalls"]

_MAY_FAIL_LATE = frozenset({ToolEffect.READ, ToolEffect.IDEMPOTENT})


class ToolCalls:
    """Runs the tool calls of one session."""

    def __init__(self, journal: AgentJournal, agent: Agent, reach: Reach) -> None:
        self._journal, self._agent, self._reach = journal, agent, reach

    def start(self, position: int) -> None:
        """Record that the call is about to run.

        A tool that is not there fails at once, and a call for which the run has no time left is cancelled: neither is
        started.
        """
        state = self._journal.glance()
        call = state.tool_executions[position]
        if (left := seconds_left(state)) is not None and left <= 0:
            self._journal.record(ToolCallCancelled(position=position, reason="the run's time is up"))
            return
        tool = self._agent.tools.get(call.name)
        if tool is None:
            self._journal.record(ToolExecutionFailed(position=position, error=self._unknown(call.name)))
            return
        self._journal.record(
            ToolExecutionStarted(
                position=position,
                call_id=call.call.id,
                tool=call.name,
                effect_id=effect_id(ExecutionId(state.execution_id or ""), state.open_step or 0, position),
                effect=tool.spec.effect,
                attempt=call.attempt + 1,
                arguments_digest=call.arguments_digest,
            )
        )

    async def execute(self, position: int) -> None:
        """Run a started call and record its outcome."""
        journal, state = self._journal, self._journal.glance()
        call = state.tool_executions[position]
        tool = self._agent.tools[call.name]
        left = seconds_left(state)
        timeout = shortest(tool.spec.timeout, left)
        context = ToolContext(
            effect_id=call.effect_id or "",
            agent_id=state.agent_id,
            execution_id=state.execution_id or "",
            step=state.open_step or 0,
            call_id=call.call.id,
            attempt=call.attempt,
            deadline_seconds=timeout,
        )
        journal.note_call(position, context.effect_id, context.attempt)
        began = state.as_of
        classify = partial(capture, default=ErrorType.TOOL, now=began / 1e6)
        self._reach("before-tool")
        try:
            running = tool.run(call.arguments, call.call.raw, context, timeout=timeout, capture=classify)
            outcome = await perform(journal, running)
        except Exception as error:
            outcome = ToolFailed(classify(error))
        except BaseException:
            seconds = (journal.now() - began) / 1e6
            journal.record(ToolExecutionInterrupted(position=position, reason="cancelled", duration_seconds=seconds))
            raise
        self._reach("after-tool")
        of_the_run = left is not None and timeout == left
        self._record(position, tool, outcome, (journal.now() - began) / 1e6, of_the_run=of_the_run)

    def _record(
        self,
        position: int,
        tool: RunnableTool,
        outcome: ToolOutcome | Cut[ToolOutcome],
        seconds: float,
        *,
        of_the_run: bool,
    ) -> None:
        record = self._journal.record
        match outcome:
            case ToolSucceeded(result=result):
                record(self._succeeded(position, tool, result, seconds))
            case ToolFailed(error=error):
                record(ToolExecutionFailed(position=position, error=error, duration_seconds=seconds))
            case ToolTimedOut(error=error):
                if tool.spec.effect in _MAY_FAIL_LATE and not of_the_run:
                    record(ToolExecutionFailed(position=position, error=error, duration_seconds=seconds))
                    return
                reason: Literal["deadline", "timeout"] = "deadline" if of_the_run else "timeout"
                record(ToolExecutionInterrupted(position=position, reason=reason, duration_seconds=seconds))
            case Cut():
                record(ToolExecutionInterrupted(position=position, reason="stop", duration_seconds=seconds))
            case _:
                error = self._garbage(tool, f"returned {type(cast(object, outcome)).__name__} and not an outcome")
                record(ToolExecutionFailed(position=position, error=error, duration_seconds=seconds))

    def _succeeded(
        self, position: int, tool: RunnableTool, result: JsonValue, seconds: float
    ) -> ToolExecutionCompleted | ToolExecutionFailed:
        recorded = self._journal.glance().agent
        most = recorded.limits.max_result_characters if recorded is not None else None
        try:
            text = result_text(result)
            text.encode()
            cut = most if most is not None and len(text) > most else None
            return ToolExecutionCompleted(
                position=position, result=result, duration_seconds=seconds, shown_characters=cut
            )
        except (TypeError, ValueError, RecursionError):
            # `@tool` lets no such result pass; a tool of somebody's own making may.
            error = self._garbage(tool, "returned a result that is not JSON")
            return ToolExecutionFailed(position=position, error=error, duration_seconds=seconds)

    def _garbage(self, tool: RunnableTool, what: str) -> ErrorInfo:
        message = f"the tool {tool.spec.name!r} {what}"
        return ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:InvalidOutcome", message=message)

    def _unknown(self, name: str) -> ErrorInfo:
        known = ", ".join(sorted(self._agent.tools)) or "none"
        message = f"there is no tool {name!r}; the tools are: {known}"
        return ErrorInfo(type=ErrorType.TOOL, error_class="steptrail:UnknownTool", message=message)
