"""Decisions as effects: the criteria vote, the votes are resolved, a granted retry gets its delay."""

import random
from collections.abc import Callable
from functools import partial

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.deciding import decided
from steptrail.domain.agent.effects import ScheduleRetry, TakeDecision
from steptrail.domain.agent.events import EvaluationsRecorded, RetryScheduled
from steptrail.domain.agent.shown import Looks, ShownState
from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.copies import own
from steptrail.runtime.agent.agent import Agent, criteria_for
from steptrail.runtime.agent.agent_journal import AgentJournal
from steptrail.runtime.agent.run_log import RUNS, failed_vote

__all__ = ["DecisionTaker"]


class DecisionTaker:
    """Takes the decisions of one session. Without an agent only what is recorded votes."""

    def __init__(self, journal: AgentJournal, agent: Agent | None, draw: Callable[[], float] = random.random) -> None:
        self._journal, self._agent, self._draw = journal, agent, draw
        self._asked: tuple[AgentSnapshot, ContinuationCriteria] | None = None

    def take(self, due: TakeDecision) -> None:
        """Let vote whoever votes now, resolve, and record both."""
        journal = self._journal
        # The criteria of a service may keep the state that they are shown, or change what it holds; ours do neither.
        has_own = self._agent is not None and bool(self._agent.criteria)
        state = journal.state if has_own else journal.peek()
        execution = journal.peek().execution
        if execution is None:
            return
        if due.phase != "stop":
            criteria = self._criteria(execution.agent)
            asked = criteria.guards() if due.phase == "resume" else criteria
            seen = state if due.until is None else state.after_waiting(due.until)
            looks = Looks()
            shown = ShownState.of(seen, looks) if has_own else seen
            votes = asked.votes(shown, partial(failed_vote, state.agent_id, "the criterion"))
            votes = own(votes) if has_own else votes
            journal.record(EvaluationsRecorded(phase=due.phase, votes=votes, read_settings=looks.at_settings))
        journal.record(decided(journal.peek(), due))

    def _criteria(self, recorded: AgentSnapshot) -> ContinuationCriteria:
        if self._asked is None or self._asked[0] is not recorded:
            own = self._agent.criteria if self._agent is not None else ()
            self._asked = recorded, criteria_for(recorded, own)
        return self._asked[1]

    def schedule(self, retry: ScheduleRetry) -> None:
        """Choose the delay by the recorded policy, and record it."""
        recorded = self._journal.peek().agent
        if recorded is None:
            return
        backoff = recorded.error_policy.backoff
        delay = backoff.delay(retry.failures, self._draw(), retry.retry_after)
        due_at = self._journal.now() + round(delay * 1e6)
        self._journal.record(
            RetryScheduled(
                error_type=retry.error_type,
                failures=retry.failures,
                delay_seconds=delay,
                due_at=due_at,
                retry_after=retry.retry_after,
            )
        )
        session, kind = self._journal.peek().agent_id, retry.error_type.value
        RUNS.warning("session %s: again in %.1f s after failure %d (%s)", session, delay, retry.failures, kind)
