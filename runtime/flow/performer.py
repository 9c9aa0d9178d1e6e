"""Performs the effects of a run of a workflow: evaluates nodes in place, tries those that leave the process, waits.

The performer has no state beside the journal and what is in flight, so running and resuming are the same loop. What
leads to an effect outside the process is durable before it happens.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import structs

from steptrail.domain.agent.means import Means
from steptrail.domain.copies import own
from steptrail.domain.flow import effects
from steptrail.domain.flow.events import (
    FlowEvent,
    HumanAnswered,
    HumanExpired,
    NodeAttemptFailed,
    NodeRetryScheduled,
    StepHeld,
)
from steptrail.domain.flow.next_effects import deadlines
from steptrail.domain.flow.state import FlowState
from steptrail.domain.flow.task import Task, TaskKey, of_try
from steptrail.domain.flow.waits import stays_for
from steptrail.domain.shared.resources import wait_for_resources
from steptrail.runtime.agent.resources import Opener, OpenResources
from steptrail.runtime.flow.asking import question
from steptrail.runtime.flow.attempts import Attempts
from steptrail.runtime.flow.evaluating import evaluated
from steptrail.runtime.flow.means import FlowMeans
from steptrail.runtime.flow.run_log import began, ended, tried_again
from steptrail.runtime.flow.workflow import BuiltWorkflow
from steptrail.runtime.kernel.kinds import control_of
from steptrail.runtime.kernel.log_context import LogPlace, logged_at
from steptrail.runtime.kernel.news import wait_for_news
from steptrail.runtime.kernel.segment import Segment

_NEED_CODE = (effects.Evaluate, effects.StartTasks, effects.Await)
_MOST_UNSTORED = 200
"""Events. A long row of nodes that are evaluated in place is stored in commits of about this size."""


class FlowRunner:
    """Performs the effects of one run that this process owns. Without a workflow it can only close what is open."""

    def __init__(self, flow: BuiltWorkflow | None, means: FlowMeans, segment: Segment[FlowState, FlowEvent]) -> None:
        self._flow, self._means, self._segment, self._env = flow, means, segment, segment.environment
        self._journal, self._flight, self._stopped = segment.journal, segment.flight, 0
        self._attempts = Attempts(segment, flow, means) if flow is not None else None
        self._closing = AsyncExitStack()
        self._unopened = flow.resources if flow is not None else None
        self._grace: tuple[int, float] | None = None

    @asynccontextmanager
    async def at_work(self) -> AsyncGenerator[None]:
        """Log the beginning and the end of the work, and give the log lines between them the place in the run."""
        state = self._journal.peek()
        began(state)
        with logged_at(LogPlace(state.flow_id, state.execution_id)):
            async with self._closing:
                self._closing.callback(self._segment.forget)
                yield
        ended(self._journal.committed)

    def is_for_somebody_else(self, effect: effects.FlowEffect, /) -> bool:
        """Tell whether the effect cannot be performed here: it is for a person, another process, or a later time."""
        if isinstance(effect, effects.RestUntil):
            run = self._journal.peek().run
            return self._flow is None or run is None or not stays_for(run, effect.until, self._journal.now())
        return self._flow is None and isinstance(effect, _NEED_CODE) and not self._is_of_a_person(effect)

    def _is_of_a_person(self, effect: effects.FlowEffect) -> bool:
        """Tell whether the effect makes the answer of a person the result of a node, for which no code is needed."""
        run = self._journal.peek().run
        task = run.tasks.get(effect.key) if run is not None and isinstance(effect, effects.Evaluate) else None
        return task is not None and isinstance(task.landing, HumanAnswered | HumanExpired)

    async def perform(self, effect: effects.FlowEffect, /) -> None:
        """Perform the effect, and record the events that follow from it."""
        journal, attempts = self._journal, self._attempts
        if self._unopened is not None and isinstance(effect, _NEED_CODE):
            await self._open(self._unopened)
            return  # a command may have come meanwhile, so the machine is asked again
        match effect:
            case effects.RecordEvents(events=events):
                journal.conclude(*(_put_off(event, journal.behind) for event in events))
                await self._stop_left()
                if journal.unstored > _MOST_UNSTORED:
                    await journal.flush()
            case effects.ScheduleNodeRetry(key=key):
                self._schedule(key)
            case effects.Ask(key=key):
                state = journal.asked
                run = state.at_work()
                task = run.tasks.get(key) or Task(*key)
                tool = self._flow.code.get(task.node) if self._flow is not None else None
                now = state.as_of + journal.behind()
                journal.conclude(question(run, task, now, self._means.schemas, tool))
            case effects.Evaluate(key=key):
                await self._evaluate(key, self._flow)
            case effects.StartTasks(keys=keys) if attempts is not None:
                attempts.start(keys)
            case effects.Await(keys=keys, until=until) if attempts is not None:
                if await journal.flush():
                    attempts.begin(keys)
                    if not any(key not in self._flight for key in keys):
                        at_most = None if until is None else max(0.0, (until - journal.now()) / 1e6)
                        await self._flight.land(at_most=at_most, or_news=True)
            case effects.CutOff() if attempts is not None:
                if await journal.flush():
                    await self._cut(effect, attempts)
            case effects.RestUntil(until=until) if until is not None:
                if await journal.flush():
                    await wait_for_news(journal, until, self._env.reach)
            case _:
                raise AssertionError(f"{effect} is not for this process")

    async def _stop_left(self) -> None:
        """Stop the streams of visits that were given up while the run goes on: they would go on for nothing."""
        state = self._journal.peek()
        left: Mapping[str, int] = state.run.left if state.run is not None else {}
        if len(left) > self._stopped and await self._journal.flush():
            given_up, self._stopped = dict([*left.items()][self._stopped :]), len(left)
            this = control_of(self._env, self._journal.stream)
            await this.stop_below(given_up, f"flow {state.flow_id} goes on without it")

    async def _open(self, opener: Opener) -> None:
        """Open the resources of the run, once. When that fails, the run waits, and leaves the next try to a resume."""
        if not await self._journal.flush():
            return
        state = self._journal.peek()
        context = state.run.started.context if state.run is not None else None
        means = Means(lambda: own(context))
        resources = OpenResources(f"flow {state.flow_id}", opener, means)
        self._closing.push_async_callback(resources.close)
        ends = [] if state.run is None else deadlines(state.run)
        left = max(0, min(ends) - self._journal.now()) / 1e6 if ends else None
        if (problem := await resources.open_in(self._flight, left)) is not None:
            self._journal.record(wait_for_resources(self._journal.peek(), problem))
        elif self._attempts is not None and means.are_open:
            self._unopened, self._attempts.resources = None, means.resources

    async def _cut(self, due: effects.CutOff, attempts: Attempts) -> None:
        """Cut off what may be cut now, and the others when their grace is over by the clock of the loop."""
        if attempts.forgo((*due.now, *due.others), due.reason):
            return
        attempts.cut(due.now, due.reason)
        now = asyncio.get_running_loop().time()
        if self._grace is None or self._grace[0] != due.until:
            # Who asked for the stop may have a clock that is ahead.
            most, left = self._journal.asked.at_work().options.stop_grace, (due.until - self._journal.now()) / 1e6
            self._grace = due.until, now + max(0.0, min(left, most))
        left = max(0.0, self._grace[1] - now) if due.others else 0.0
        if not left:
            attempts.cut(due.others, due.reason)
        await self._flight.land(at_most=left or None)

    def _schedule(self, key: TaskKey) -> None:
        state = self._journal.asked
        run = state.at_work()
        task, node = run.tasks[key], run.node(key[0], key[2])
        asked = task.landing.error.retry_after if isinstance(task.landing, NodeAttemptFailed) else None
        draw = self._env.draw()
        delay = node.retry.delay(max(1, task.failures), draw, asked)
        again = NodeRetryScheduled(
            **of_try(key, task.attempt + 1),
            draw=draw,
            delay_seconds=delay,
            due_at=state.as_of + round(delay * 1e6),
            retry_after=asked,
        )
        self._journal.conclude(again)
        tried_again(state.flow_id, again)

    async def _evaluate(self, key: TaskKey, flow: BuiltWorkflow | None) -> None:
        has_code = flow is not None and flow.functions.get(key[0])
        if has_code and self._journal.comes_before_users_code and not await self._journal.flush():
            return
        self._journal.record(evaluated(self._journal.peek(), key, flow, self._means, self._journal.now()))


def _put_off(event: FlowEvent, behind: Callable[[], int]) -> FlowEvent:
    """Return the event; of a step that is held, as one that people answer by the time of day."""
    return structs.replace(event, behind=behind()) if isinstance(event, StepHeld) else event
