"""Asks for the summary of a conversation that is compacted, as an effect that a stop and the time limits cut off."""

from functools import partial

from steptrail.domain.agent.compacting import compacted
from steptrail.domain.agent.effects import Compact
from steptrail.domain.agent.events import AgentEvent
from steptrail.domain.agent.request_view import shown_before
from steptrail.domain.agent.shortened import without_long_results
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.names import function_name
from steptrail.domain.failures import ErrorType
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.agent.compaction import Compaction, Summary, SummaryRequest
from steptrail.runtime.agent.deadline import is_out_of_time, within
from steptrail.runtime.agent.run_log import call_failed
from steptrail.runtime.kernel.running_effects import PATIENCE_SECONDS, Cut, Deaf
from steptrail.runtime.kernel.segment import Segment
from steptrail.runtime.kernel.time_bound import TimeBound


class Compacting:
    """Compacts the conversation of one session."""

    def __init__(self, segment: Segment[AgentState, AgentEvent], agent: AnyAgent) -> None:
        self._journal, self._agent, self._flight = segment.journal, agent, segment.flight
        self._reach = segment.environment.reach

    async def compact(self, due: Compact) -> None:
        """Ask for a summary and record what comes of it. When a stop cuts it off, nothing is recorded."""
        state = self._journal.peek()
        fold, execution, setting = state.fold, state.execution, self._agent.compaction or Compaction()
        if execution is None:
            return
        recorded, timeout = execution.agent, within(due.deadline, state.as_of)
        above = setting.clear_results_above
        shown = [without_long_results(each, above) for each in shown_before(fold, due.plan.cut, recorded)]
        model, number = self._agent.models[execution.switched], fold.shortened.asked
        asked = SummaryRequest(tuple(shown), model, fold.inferences, timeout, number)
        limit, began = TimeBound(timeout), self._journal.now()
        by = setting.model or asked.model
        name = function_name(setting.summarizer) if callable(setting.summarizer) else by.describe().model
        self._reach("before-inference")
        end = partial(self._ended, due=due, by=name, began=began, limit=limit, timeout=timeout)
        summarised = limit.around(partial(setting.summarised, asked))
        self._flight.begin("compaction", summarised, end, patience=PATIENCE_SECONDS, at_most=timeout)
        await self._flight.land()

    def _ended(
        self,
        outcome: Summary | Cut | Deaf | Exception,
        *,
        due: Compact,
        by: str,
        began: int,
        limit: TimeBound,
        timeout: float | None,
    ) -> None:
        self._reach("after-inference")
        if isinstance(outcome, Cut):
            return
        state, seconds = self._journal.peek(), (self._journal.now() - began) / 1e6
        if state.execution is None:
            return
        if isinstance(outcome, Deaf):
            outcome = TimeoutError("the summarizer takes no notice of its deadline")
        if isinstance(outcome, Exception):
            failure = capture(outcome, default=ErrorType.MODEL, now=self._journal.now() / 1e6)
            call_failed(f"session {state.agent_id}", f"summary by {by}", failure, outcome)
            outcome = Summary(None, problem=failure)
        problem = outcome.problem
        is_late = problem is not None and (limit.is_over or is_out_of_time(problem, seconds, timeout))
        event = compacted(
            state.fold,
            state.execution,
            due.plan,
            summary=outcome.text,
            by=by,
            usage=outcome.usage,
            problem=problem,
            deadline=due.deadline.at if is_late and due.deadline is not None else None,
            duration_seconds=seconds,
        )
        self._journal.record(event)
