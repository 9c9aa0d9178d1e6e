"""The decisions of a recorded session, taken anew with other settings."""

from collections.abc import Sequence

from steptrail.domain.agent import events as stored
from steptrail.domain.agent.call_starts import no_room_for
from steptrail.domain.agent.effects import Record, ScheduleRetry, TakeDecision
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.evolve import evolve_all
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.built_in import BuiltIn
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.shared.run import after_step
from steptrail.domain.views import StateView
from steptrail.projections.other_settings import OtherSettings, Parts, WhatIfQuestion
from steptrail.projections.what_if_cuts import ENDS_OF_EFFECTS, part_by_a_crash, part_by_time, play_out


class RecordedVote(BuiltIn):
    """A criterion that votes as one that is not here has voted."""

    __slots__ = ("_vote",)

    is_guard = True

    def __init__(self, vote: ContinuationEvaluation) -> None:
        self._vote = vote

    def explain(self, state: StateView, /) -> ContinuationEvaluation:
        """Return the recorded vote."""
        return self._vote


_CALLS = (stored.ToolExecutionStarted, stored.ToolCallDeferred, stored.ApprovalRequested, stored.ToolCallCancelled)
_DECISIONS = (
    stored.EvaluationsRecorded,
    stored.ContinuationEvaluated,
    stored.ExecutionFinished,
    stored.HooksRan,
    stored.StepCompleted,
)
_RETRIES = (stored.RetryScheduled, stored.StepStarted)


class OtherRun(OtherSettings):
    """The run with the other settings, as long as it is the recorded one."""

    def __init__(self, state: AgentState, question: WhatIfQuestion) -> None:
        super().__init__(state, question)
        self._decision: Sequence[stored.AgentEvent] = ()
        self.looks_at = frozenset[type[stored.AgentEvent]]()
        """The classes of events about which it has to be asked."""
        self.refused = set[int]()
        """The positions of the calls of the open step that are beyond the limit now."""

    def put_in(self) -> None:
        """See `OtherSettings.put_in`."""
        super().put_in()
        of_time = (*ENDS_OF_EFFECTS, stored.WaitStarted) if self.has_other_time else ()
        self.looks_at = frozenset({*_DECISIONS, *_CALLS, *(_RETRIES if self.has_other_policy else ()), *of_time})

    def asked(self, event: stored.AgentEvent, at: int, version: int) -> stored.AgentEvent | None:
        """Return the event that this run has in the place of the one that comes next; None when it has none.

        Raises `Parts` when it is not the recorded run from there on.
        """
        if self.refused:
            # The calls that run beside a refused one may have ended by now, and then the run has.
            play_out(self, (), self.state.fold.updated_at, version)
            if getattr(event, "position", None) in self.refused:
                return None
        match event:
            case stored.EvaluationsRecorded(hook=None, phase=DecisionPhase.BOUNDARY | DecisionPhase.RESUME):
                return self._votes(event, at, version)
            case stored.ContinuationEvaluated():
                return self._decided(event, at, version)
            case stored.ExecutionFinished():
                return self._finished(event, at, version)
            case stored.ExecutionResumed():
                part_by_a_crash(self, event, version)
            case stored.HooksRan(read_settings=True, hooks=hooks):
                raise Parts(f"the hook {', '.join(hooks)} looked at the limits or the policy", version)
            case stored.RetryScheduled() | stored.StepStarted() if self.has_other_policy:
                self._retry(event, at, version)
            case stored.WaitStarted(kind="retry" | "tool_retry") if self.has_other_time:
                self.stop_of(self.due(at), at, version)
            case _ if isinstance(event, _CALLS):
                return self._call(event, at, version)
            case _ if self.has_other_time and isinstance(event, ENDS_OF_EFFECTS):
                part_by_time(self, event, at, version)
            case _:
                pass
        return event

    def _votes(self, event: stored.EvaluationsRecorded, at: int, version: int) -> stored.AgentEvent:
        """Let the criteria vote, and keep the decision that follows."""
        if event.read_settings and not self.question.brings_criteria:
            raise Parts("a criterion of its own looked at the limits or the policy: give the agent", version)
        effect = self.due(at)
        if not isinstance(effect, TakeDecision):
            raise Parts(f"it would have gone on {after_step(self.state.step_count)}, with no decision there", version)
        if self.recorded is not None and self.recorded.criteria and not self.question.brings_criteria:
            own = [RecordedVote(vote) for vote in event.votes[self._votes_of_ours(at) :]]
            self.judges = self.question.judges(self.state, own)
        cast, *self._decision = self.concluded(effect, at)
        return cast

    def _votes_of_ours(self, at: int) -> int:
        """Return how many of the recorded votes are those of built-in criteria, which come first."""
        judges, self.judges = self.judges, self.question.judges(self.state, ())
        with self.as_recorded():
            due = self.due(at)
            events = self.concluded(due, at) if isinstance(due, TakeDecision) else ()
        self.judges = judges
        return next((len(each.votes) for each in events if isinstance(each, stored.EvaluationsRecorded)), 0)

    def _decided(self, event: stored.ContinuationEvaluated, at: int, version: int) -> stored.AgentEvent:
        events, self._decision = self._decision, ()
        if event.phase is DecisionPhase.STOP:
            # Where the end is forbidden now, the Stop hooks were heard and could prevent nothing.
            due = self.due(at)
            events = self.concluded(due, at) if isinstance(due, TakeDecision) else ()
            if not events and event.should_continue:
                raise Parts("", version, ended=evolve_all(self.state, ()))
        made = events[0] if events else event
        if not isinstance(made, stored.ContinuationEvaluated):
            return event
        if event.should_continue and not made.should_continue:
            self.stop((made,), at, version, self.state)
        if made.should_continue and not event.should_continue:
            raise Parts(f"it would have gone on {after_step(event.step)}, where it ended", version, is_the_end=True)
        has_others = self.execution.agent.fallback is not None
        if has_others and event.should_continue and event.phase is not DecisionPhase.RESUME:
            with self.as_recorded():
                is_switched = self.state.switch_due is not None
            if is_switched is not any(isinstance(each, stored.ModelSwitched) for each in events):
                raise Parts(f"another model would have been asked {after_step(event.step)}", version)
        return made

    def _finished(self, event: stored.ExecutionFinished, at: int, version: int) -> stored.AgentEvent:
        match due := self.due(at):
            case TakeDecision():
                made = self.concluded(due, at)
                if any(isinstance(each, stored.ContinuationEvaluated) and each.should_continue for each in made):
                    why = "it would have gone on, where its end could not be prevented"
                    raise Parts(why, version, is_the_end=True)
            case Record(events=(stored.ExecutionFinished() as other,)):
                return other
            case _:
                pass
        return event

    def _retry(self, event: stored.RetryScheduled | stored.StepStarted, at: int, version: int) -> None:
        """Part where the next try would have come at another time."""
        due, now = self.due(at), 0.0
        draw, then = (event.draw, event.delay_seconds) if isinstance(event, stored.RetryScheduled) else (0.0, 0.0)
        if isinstance(due, ScheduleRetry):
            now = self.execution.agent.error_policy.backoff.delay(due.failures, draw, due.retry_after)
        if now != then:
            raise Parts(f"the next try would have come after {now:g} s, and not after {then:g} s", version)

    def _call(self, event: stored.AgentEvent, at: int, version: int) -> stored.AgentEvent | None:
        """Return that a call is refused, where it is beyond the limit now. The rest of the step is as it was."""
        position: int = getattr(event, "position", 0)
        if position >= len(self.state.tool_executions):
            return event
        call = self.state.tool_executions[position]
        refused = None if call.attempt else no_room_for(self.execution, call)
        is_refused = refused is not None and refused.over_the_limit
        if isinstance(event, stored.ToolCallCancelled):
            if event.over_the_limit and not is_refused:
                raise Parts(f"the call of {call.name} would have run, which was beyond the limit", version)
            if event.cut_by is not None and self.has_other_time:
                part_by_time(self, event, at, version)
        elif refused is not None and is_refused:
            self.refused.add(position)
            play_out(self, (refused,), at, version)
            return refused
        if isinstance(event, stored.ToolExecutionStarted) and event.read_settings and not self.question.trusts_tools:
            tool = self.execution.agent.tool(event.tool)
            if tool is None or tool.runs_children is None:
                raise Parts(f"the tool {event.tool} gets a context, in which it could look at the limits", version)
        return event
