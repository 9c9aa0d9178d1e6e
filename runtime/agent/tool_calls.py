"""Runs tool calls as effects: each is recorded before it runs, and recorded when it ends, in whatever way.

A tool affects the run only by its outcome: the outcome is shown to the model, and the error policy decides on errors.
"""

from functools import partial
from typing import Any

from msgspec import Struct

from steptrail.domain.agent.call_starts import refuse_altered
from steptrail.domain.agent.deadline import Deadline
from steptrail.domain.agent.effects import RunCalls
from steptrail.domain.agent.events import (
    AgentEvent,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionSuspended,
)
from steptrail.domain.agent.fold import ExecutionFold
from steptrail.domain.agent.interruptions import Cut as CutOff, call_interrupted, has_tries_left
from steptrail.domain.agent.means import Means
from steptrail.domain.agent.shown import ShownState
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.step import ToolExecution
from steptrail.domain.copies import own
from steptrail.domain.kernel.machine import CallInFlight
from steptrail.domain.live import ToolProgress
from steptrail.domain.shared.parent import ParentRef
from steptrail.domain.shared.run import CutBy
from steptrail.domain.tools import ToolEffect, result_text
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.capture import ToolCapture
from steptrail.runtime.agent.deadline import first_of, is_out_of_time, shortest, within as left_within
from steptrail.runtime.agent.run_log import RUNS, call_failed
from steptrail.runtime.agent.tool_port import (
    Patience,
    RunnableTool,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolSucceeded,
    ToolSuspended,
    ToolTimedOut,
    outcome_of,
)
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.live_updates import Shown
from steptrail.runtime.kernel.log_context import LogPlace, within
from steptrail.runtime.kernel.running_effects import Cut, Deaf
from steptrail.runtime.kernel.segment import Segment

_MAY_FAIL_LATE = frozenset({ToolEffect.READ, ToolEffect.IDEMPOTENT})


class _Started(Struct, frozen=True, kw_only=True):
    position: int
    call: CallInFlight
    tool: RunnableTool
    began: int
    classify: ToolCapture
    timeout: float | None
    deadline: Deadline | None
    patience: Patience | None
    shown: Shown


class ToolCalls:
    """Runs the tool calls of one session."""

    def __init__(self, segment: Segment[AgentState, AgentEvent], agent: AnyAgent, means: Means) -> None:
        self._journal, self._agent, self._flight, self._means = segment.journal, agent, segment.flight, means
        self._reach, self._watching = segment.environment.reach, segment.watcher
        self._child_of = partial(ChildPlace.below, segment)

    async def run(self, calls: RunCalls) -> None:
        """Run these calls, whose start is recorded, and record the outcomes of those that end first."""
        for position in sorted((*calls.running, *calls.starts)):
            if position not in self._flight:
                # What this process has just recorded needs no second digest; what it found in the log does.
                self._begin(position, calls.deadline, is_new=position in calls.starts)
        until = calls.until
        await self._flight.land(at_most=None if until is None else (until - self._journal.now()) / 1e6)

    def _begin(self, position: int, deadline: Deadline | None, *, is_new: bool) -> None:
        state = self._journal.peek()
        call = state.tool_executions[position]
        if not is_new:
            refuse_altered(call, state)
        name = call.name
        tool = self._agent.tools[name]
        timeout = shortest(tool.spec.timeout, left_within(deadline, state.as_of))
        execution, step = state.execution_id or "", state.open_step or 0
        place = LogPlace(state.agent_id, execution, step, call.effect_id or "")
        means, reads, runs_children = self._means, tool.spec.takes_context, tool.spec.runs_children is not None
        progress = partial(
            ToolProgress,
            session_id=place.session,
            execution_id=execution,
            step=step,
            position=position,
            tool=name,
            call_id=call.call.id,
        )
        shown = Shown(self._watching, progress)
        context: ToolContext[Any, Any] = ToolContext(
            effect_id=call.effect_id or "",
            session_id=state.agent_id,
            execution_id=execution,
            step=step,
            call_id=call.call.id,
            attempt=call.attempt,
            deadline_seconds=timeout,
            data=means.data if reads or runs_children else None,
            resources=means.resources if reads and means.are_open else None,
            declared=self._agent.context if runs_children else None,
            state=ShownState.of(self._journal.state, means=means) if reads else None,
            report=shown.report,
            child=self._child(call, state) if runs_children else None,
        )
        began = state.as_of
        self._reach("before-tool")
        classify = ToolCapture(self._journal.now)
        RUNS.debug("session %s: tool %s starts, attempt %d", context.session_id, name, call.attempt)
        arguments, raw = own(call.arguments), call.call.raw
        run = partial(tool.run, arguments, raw, context, timeout=timeout, capture=classify)
        running = within(place, run)
        patience: Patience | None = getattr(tool, "patience", None)
        started = _Started(
            position=position,
            call=CallInFlight(context.effect_id, context.attempt),
            tool=tool,
            began=began,
            classify=classify,
            timeout=timeout,
            deadline=first_of(tool.spec.timeout, deadline, began),
            patience=patience,
            shown=shown,
        )
        self._flight.begin(
            position,
            running,
            partial(self._ended, started),
            patience=patience.seconds if patience is not None else None,
            at_most=timeout,
            drops_late=patience is not None,
        )

    def _child(self, call: ToolExecution, state: AgentState) -> ChildPlace:
        parent = ParentRef(
            kind="agent",
            session=state.agent_id,
            execution=state.execution_id or "",
            effect=call.effect_id or "",
            call=call.call.id,
        )
        return self._child_of(parent.under(state.parent))

    def _ended(self, started: _Started, outcome: ToolOutcome | Cut | Deaf | Exception) -> None:
        self._reach("after-tool")
        started.shown.end()
        seconds = (self._journal.now() - started.began) / 1e6
        if isinstance(outcome, Deaf):
            assert started.patience is not None  # noqa: S101 - only a call with a patience is left behind
            outcome = started.patience.outcome(started.timeout)
        if isinstance(outcome, Exception):
            outcome = ToolFailed(started.classify(outcome))
        if not isinstance(outcome, Cut):
            outcome = outcome_of(started.tool, outcome)
        if isinstance(outcome, ToolFailed) and is_out_of_time(outcome.error, seconds, started.timeout):
            outcome = ToolTimedOut(outcome.error, cancelled=True, may_retry=outcome.may_retry, usage=outcome.usage)
        event = self._event(started, outcome, seconds)
        if isinstance(event, ToolExecutionFailed):
            session = self._journal.peek().agent_id
            call_failed(f"session {session}", f"tool {started.tool.spec.name}", event.error, started.classify.raised)
        self._journal.record_outcome(started.call, event)

    def _event(self, started: _Started, outcome: ToolOutcome | Cut, seconds: float) -> AgentEvent:
        position, tool = started.position, started.tool
        match outcome:
            case ToolSucceeded():
                return self._succeeded(position, outcome, seconds)
            case ToolFailed():
                return self._failed(position, outcome, seconds)
            case ToolTimedOut():
                # A tool may say that its time is up though neither it nor the run has a limit: the time was its own.
                deadline = started.deadline or Deadline(started.began, CutBy.TOOL_TIMEOUT)
                if tool.spec.effect in _MAY_FAIL_LATE and deadline.cut_by is CutBy.TOOL_TIMEOUT:
                    return self._failed(position, outcome, seconds, deadline.cut_by)
                return self._interrupted(position, deadline, seconds, outcome.usage)
            case ToolSuspended(session=session, reason=why, until=until, usage=usage):
                return ToolExecutionSuspended(
                    position=position, session=session, reason=why, until=until, duration_seconds=seconds, usage=usage
                )
            case Cut(by=by):
                return self._interrupted(position, by, seconds)

    def _failed(
        self, position: int, outcome: ToolFailed | ToolTimedOut, seconds: float, cut_by: CutBy | None = None
    ) -> ToolExecutionFailed:
        execution, call = self._running(position)
        return ToolExecutionFailed(
            position=position,
            error=outcome.error,
            duration_seconds=seconds,
            may_retry=outcome.may_retry and has_tries_left(execution, call.name, call.failures + 1),
            cut_by=cut_by,
            usage=outcome.usage,
        )

    def _interrupted(
        self, position: int, by: CutOff | Deadline, seconds: float, usage: BilledUsage | None = None
    ) -> AgentEvent:
        execution, call = self._running(position)
        return call_interrupted(execution, call, by, seconds=seconds, usage=usage)

    def _running(self, position: int) -> tuple[ExecutionFold, ToolExecution]:
        state = self._journal.peek()
        execution = state.execution
        assert execution is not None  # noqa: S101 - a call of it was running
        return execution, state.tool_executions[position]

    def _succeeded(self, position: int, outcome: ToolSucceeded, seconds: float) -> ToolExecutionCompleted:
        recorded = self._journal.committed.agent
        of_run = recorded.limits.max_result_characters if recorded is not None else None
        most = min([each for each in (outcome.most_shown, of_run) if each is not None], default=None)
        return ToolExecutionCompleted(
            position=position,
            result=outcome.result,
            duration_seconds=seconds,
            shown_characters=most if most is not None and len(result_text(outcome.result)) > most else None,
            usage=outcome.usage,
            files=outcome.files,
        )
