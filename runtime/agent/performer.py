"""Performs the effects of a session: hooks, decisions, model calls, tool calls, waits.

The runner has no state beside the journal, so running and resuming are the same loop. The events that lead to an effect
outside the process are durable before it happens: the journal is flushed before each such effect.
"""

from collections.abc import AsyncGenerator, Set
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.conclude import conclude
from steptrail.domain.agent.effects import (
    CallModel,
    Compact,
    Effect,
    JudgeAnswer,
    KeepWaiting,
    ResolveInstructions,
    RunCalls,
    RunHooks,
    ScheduleToolRetry,
    StartInference,
    TakeDecision,
)
from steptrail.domain.agent.events import AgentEvent, EvaluationsRecorded, HooksRan, StepStarted, ToolExecutionStarted
from steptrail.domain.agent.means import NO_MEANS, Means
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.agent.waiting import outlasts_the_run, owner_stays_for
from steptrail.domain.hooks.types import HookType
from steptrail.domain.shared.resources import wait_for_resources
from steptrail.runtime.agent import run_log
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.agent_journal import AgentJournal
from steptrail.runtime.agent.compacting import Compacting
from steptrail.runtime.agent.deadline import EARLY_SECONDS, seconds_left
from steptrail.runtime.agent.inference import Inference
from steptrail.runtime.agent.instructions import Instructions, failed_instructions
from steptrail.runtime.agent.judges import judges_of, tell_conclusions
from steptrail.runtime.agent.output import AgentOutput
from steptrail.runtime.agent.request import Requests
from steptrail.runtime.agent.resources import PATIENCE, NeverOpened, OpenResources
from steptrail.runtime.agent.tool_calls import ToolCalls
from steptrail.runtime.kernel.kinds import control_of
from steptrail.runtime.kernel.log_context import LogPlace, log_place, logged_at
from steptrail.runtime.kernel.news import wait_for_news
from steptrail.runtime.kernel.running_effects import Cut, Deaf
from steptrail.runtime.kernel.segment import Segment

_NEED_AN_AGENT = (ResolveInstructions, StartInference, CallModel, Compact, JudgeAnswer, RunCalls, ScheduleToolRetry)
_NEED_RESOURCES = (RunHooks, ResolveInstructions, StartInference, CallModel, JudgeAnswer, RunCalls)


def waits_for_somebody_else(wait: KeepWaiting, state: AgentState, now: int) -> bool:
    """Tell whether a wait is for a person or for another session, or too long at `now` for the process to stay."""
    return state.agent is None or not owner_stays_for(state.agent.limits, wait.kind, wait.until, now)


class Runner:
    """Performs the effects of one session that this process owns. Without an agent it can only close what is open."""

    def __init__(self, agent: AnyAgent | None, segment: Segment[AgentState, AgentEvent]) -> None:
        journal = segment.journal
        self._agent, self._segment, self._journal, self._flight = agent, segment, journal, segment.flight
        self._env, self._reach = segment.environment, segment.environment.reach
        self._means = _means(journal, agent)
        self._over, self._has_run_calls = _failed_below(journal.peek()), False
        self._place: LogPlace | None = None
        self._inference = Inference(segment, agent) if agent is not None else None
        self._compacting = Compacting(segment, agent) if agent is not None else None
        requests = self._inference.requests if self._inference is not None else Requests()
        self._judges = judges_of(journal, agent, requests, segment.environment.draw, self._means)
        self._tools = ToolCalls(segment, agent, self._means) if agent is not None else None
        self._unopened = agent.resources if agent is not None else None
        self._closing = AsyncExitStack()

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Log the beginning and the end of the run, and give the log lines between them the place in the session.

        What was opened for the run is closed in the end.
        """
        state = self._journal.peek()
        run_log.began(state)
        with logged_at(LogPlace(state.agent_id)):
            async with self._closing:
                self._closing.callback(self._segment.forget)
                yield
        run_log.ended(self._journal.committed)

    def is_for_somebody_else(self, effect: Effect, /) -> bool:
        """Tell whether the effect cannot be performed here: it is for a person, another process, or a later time."""
        if isinstance(effect, KeepWaiting):
            return self._agent is None or waits_for_somebody_else(effect, self._journal.peek(), self._journal.now())
        return self._agent is None and isinstance(effect, _NEED_AN_AGENT)

    async def perform(self, effect: Effect, /) -> None:
        """Perform the effect, and record the events that follow from it."""
        journal = self._journal
        # The criteria of a service may keep the state that they are shown, and are code of the user; ours are neither.
        keeps = isinstance(effect, TakeDecision) and not self._judges.are_ours
        if keeps and journal.is_opening:
            await journal.flush()
        state = journal.state.at(journal.asked.as_of) if keeps else journal.asked
        fold = state.fold
        execution, step = fold.execution, fold.step
        place = LogPlace(fold.agent_id, execution.id if execution else None, step.number if step else None)
        if place != self._place:
            self._place = place
            log_place.set(place)
        if self._has_run_calls and (left := _failed_below(state) - self._over):
            await self._stop(left)
            return  # a command may have come meanwhile, so the machine is asked again
        self._has_run_calls = isinstance(effect, RunCalls)
        if self._unopened is not None and isinstance(effect, _NEED_RESOURCES):
            await self._open(state)
            return
        try:
            concluded = conclude(state, effect, state.as_of, self._judges)
        except Exception as error:
            if not isinstance(effect, StartInference) or self._inference is None:
                raise
            self._inference.not_asked(effect, error)
            return
        if concluded is not None:
            journal.conclude(*concluded)
            tell_conclusions(state, concluded)
            if not isinstance(effect, RunCalls):
                return
        match effect:
            case RunHooks():
                await self._run_hooks(effect)
            case ResolveInstructions() if self._agent is not None:
                if await journal.flush():
                    await self._instruct(self._agent.instructions, effect)
            case CallModel() if self._inference is not None:
                if await journal.flush():
                    await self._inference.call(effect)
            case Compact() if self._compacting is not None:
                if await journal.flush():
                    await self._compacting.compact(effect)
            case JudgeAnswer() if self._agent is not None and self._agent.output is not None:
                await self._judge(self._agent.output)
            case RunCalls() if self._tools is not None:
                has_started = all(isinstance(event, ToolExecutionStarted) for event in concluded or ())
                if has_started and await journal.flush():
                    await self._tools.run(effect)
            case KeepWaiting(until=int(until)):
                if await self._journal.flush():
                    await wait_for_news(journal, until, self._reach)
            case _:
                raise AssertionError(f"{effect} needs an agent and was not filtered out")

    async def _stop(self, left: Set[str]) -> None:
        """Stop the streams of calls that have failed here. One that such a call left open would go on for nobody."""
        if await self._journal.flush():
            self._over |= left
            this = control_of(self._env, self._journal.stream)
            await this.stop_below(dict.fromkeys(left), f"session {self._journal.peek().agent_id} goes on without it")

    async def _open(self, state: AgentState) -> None:
        """Open the resources of the run, once. When that fails, the run waits."""
        opener = self._unopened
        assert opener is not None  # noqa: S101 - asked for before
        problem: str | None = None
        if isinstance(opener, NeverOpened):
            problem = opener.problems.get(self._journal.peek().version + 1)
        elif not await self._journal.flush():  # a stop is seen during an effect only if nothing is left to be stored
            return
        else:
            resources = OpenResources(f"session {state.agent_id}", opener, self._means)
            self._closing.push_async_callback(resources.close)
            problem = await resources.open_in(self._flight, seconds_left(state))
            if problem is None and not self._means.are_open:
                return  # it was cut off
        # A run that is to stop waits for nothing: its hooks find that nothing is open.
        is_ending = state.phase is Phase.STOPPING or self._journal.peek().stop_request is not None
        if problem is None or is_ending:
            self._unopened = None
            return
        self._journal.record(wait_for_resources(self._journal.peek(), problem))

    async def _run_hooks(self, due: RunHooks) -> None:
        if self._agent is None:
            self._journal.record(HooksRan(hook_type=due.hook_type, step=due.step, position=due.position, hooks=()))
            return
        if self._journal.comes_before_users_code and not await self._journal.flush():
            return
        self._reach("before-hooks")
        stack, hook_type = self._agent.hooks, HookType(due.hook_type)
        events = await stack.process(
            hook_type, self._journal.state, step=due.step, position=due.position, means=self._means
        )
        self._reach("after-hooks")
        self._journal.record(*events)

    async def _instruct(self, instructions: Instructions, due: ResolveInstructions) -> None:
        state, seen, left = self._journal.state, self._journal.committed.version, seconds_left(self._journal.state)
        # A limit on time that is over by then decides, and not the microsecond in which a timer fires.
        within = None if left is None else left + EARLY_SECONDS
        self._reach("before-hooks")
        ended = list[tuple[AgentEvent, ...] | Cut | Deaf | Exception]()
        asking = instructions.resolve(state, due.names, self._means, within)
        self._flight.begin("instructions", asking, ended.append, patience=PATIENCE, at_most=within)
        await self._flight.land()
        self._reach("after-hooks")
        match ended[0]:
            case Cut():
                return
            case Deaf() | Exception() as end:  # that one had its own task cancelled comes as an exception
                late = TimeoutError("it did not end in time, nor when it was cancelled")
                error = late if isinstance(end, Deaf) else end
                changed: tuple[AgentEvent, ...] = (failed_instructions(state, ", ".join(due.names), error),)
            case changed:
                pass
        # A run without time left has no failed function, but a limit that is reached.
        now, execution = self._journal.now(), state.fold.execution
        is_late = execution is not None and outlasts_the_run(execution, now, now)
        failed = any(isinstance(event, EvaluationsRecorded) for event in changed)
        self._journal.record(*(changed[:-1] if is_late and failed else changed))
        # After a command that came meanwhile the machine is asked anew, and so it is for a decision after a failure.
        if not (failed or is_late) and self._journal.committed.version == seen:
            self._journal.record(StepStarted(number=due.step))

    async def _judge(self, output: AgentOutput[Any]) -> None:
        state = self._journal.state
        # The reply is made durable before code of the user runs. The code of a type is taken to be harmless.
        has_validators = state.agent is not None and state.agent.output is not None and state.agent.output.validators
        if has_validators and self._journal.comes_before_users_code and not await self._journal.flush():
            return
        self._reach("before-hooks")
        verdict = await output.judge(self._journal.state, self._means)
        self._reach("after-hooks")
        self._journal.record(*verdict)


def _failed_below(state: AgentState) -> Set[str]:
    """Return the streams that the failed calls of the open step have run."""
    calls = state.tool_executions
    return {call.below for call in calls if call.phase is CallPhase.FAILED and call.below is not None}


def _means(journal: AgentJournal, agent: AnyAgent | None) -> Means:
    """Return the means of a run, whose context stays the same for the whole segment."""
    if agent is None or (agent.context is None and agent.resources is None):
        return NO_MEANS
    declared = agent.context
    return Means(partial(declared.read, journal.peek().context) if declared is not None else None)
