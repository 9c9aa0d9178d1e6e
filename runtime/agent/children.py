"""Runs the session below a tool call: it is begun once, resumed after a crash, and never left behind.

Its id and its key are derived from the call's effect id. So a process that runs the call again goes on with the same
session, or gets its result.
"""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from msgspec import structs

from steptrail.domain.agent.ids import SessionId
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import CommandRejected, OwnershipLost, SessionBusy, StoredContextInvalid, StoreError
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import Stop
from steptrail.domain.messages import Message
from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.shared.run import StopReason
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.agent_journal import load
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.agent.deadline import is_time_above, shortest
from steptrail.runtime.kernel.cancellation import wait_through
from steptrail.runtime.kernel.child_end import ChildEnd
from steptrail.runtime.kernel.child_place import ChildPlace

_LOOK_SECONDS = 0.2

_Narrowing: TypeAlias = Callable[[Limits, Limits], Limits]


class ChildSessionEnd(ChildEnd[AgentState]):
    """The end of one run of a child session."""

    __slots__ = ()

    @property
    def usage(self) -> BilledUsage | None:
        """The bill of its session so far, with all below it; None when that is not known."""
        return self.state.fold.bill if self.state is not None else None

    def _wait_of(self, state: AgentState) -> WaitStarted | None:
        return state.execution.wait if state.execution is not None else None

    def _has_answered(self, state: AgentState) -> bool:
        return state.answered and state.stop_reason not in {StopReason.TIME_LIMIT, StopReason.USER_REQUESTED}


class ChildSession:
    """The session of one tool call."""

    def __init__(self, place: ChildPlace) -> None:
        self._stop_above = place.stop_above
        self._store, self._clock = place.environment.store, place.environment.clock
        self._take_over, self._retry_key, self.parent = place.takes_over, place.retry_key, place.parent
        self._metadata = dict(place.metadata)
        self.id = SessionId(session_for_call(place.parent.effect))
        self._control = SessionControl(place.environment, self.id)

    async def run(
        self,
        agent: AnyAgent,
        text: str,
        *,
        within: float | None = None,
        lent: _Narrowing | None = None,
        context: JsonValue = None,
    ) -> ChildSessionEnd:
        """Have `agent` answer `text`, or go on with that answer; return how the session ended.

        A session that has begun keeps its context, and another one has this `context`. The session gets at most
        `within` seconds, also when its own limits are wider; `lent` narrows these, given those of the agent and those
        that hold. While another process runs it, this waits for the end; but if the run of the call was taken over, the
        session is taken over as well. A cancellation of the call pauses the session, or stops it if the run of the call
        is to stop. That is returned as an end too, and not raised, so that the bill is known.
        """
        try:
            return await self._run(agent, text, within, lent, context)
        except asyncio.CancelledError:
            ending = asyncio.ensure_future(self._cut())
            await wait_through(ending)
            return ending.result()

    async def _run(
        self, agent: AnyAgent, text: str, within: float | None, lent: _Narrowing | None, context: JsonValue
    ) -> ChildSessionEnd:
        deadline = None if within is None else self._clock.monotonic() + round(within * 1e6)
        while True:
            left = None if deadline is None else (deadline - self._clock.monotonic()) / 1e6
            try:
                if left is not None and left <= 0:
                    return ChildSessionEnd(state=await self._look(), is_out_of_time=True)
                state = await self._go_on(agent, text, await self._limits(agent, left, lent), context)
                return ChildSessionEnd(
                    state=state,
                    is_cut=state.stop_reason is StopReason.USER_REQUESTED and await self._stop_above() is not None,
                    is_out_of_time=_ran_out_of_time(state, agent, left),
                )
            except (SessionBusy, OwnershipLost):
                await asyncio.sleep(_LOOK_SECONDS)
            except (StoreError, StoredContextInvalid) as error:
                return ChildSessionEnd(state=None, problem=str(error))

    async def _go_on(self, agent: AnyAgent, text: str, limits: Limits | None, context: JsonValue) -> AgentState:
        if self._retry_key is not None and _failed(await self._look()):
            retried = await self._control.retry(agent, by="parent", key=self._retry_key, limits=limits)
            return retried.state
        has_begun = context is not None and await self._look() is not None
        try:
            ran = await self._control.run(
                agent,
                Message.user(text),
                key=self.parent.effect,
                parent=self.parent,
                metadata=self._metadata,
                limits=limits,
                context=None if has_begun else context,
            )
            return ran.state
        except SessionBusy:
            state = await self._look()
            if not self._take_over or state is None or not state.is_open:
                raise
        self._take_over = False
        return await self._control.resume(agent, take_over=True, limits=limits)

    async def _limits(self, agent: AnyAgent, left: float | None, lent: _Narrowing | None) -> Limits | None:
        """Return the limits of the next segment; None when they are those that hold anyway, or there is none."""
        state = await self._look()
        if state is not None and self._control.only_waits(state):
            return None
        is_begun = state is not None and not (self._retry_key is not None and _failed(state))
        recorded = state.agent.limits if is_begun and state is not None and state.agent is not None else agent.limits
        held = recorded if lent is None else lent(agent.limits, recorded)
        wanted = structs.replace(held, timeout=shortest(agent.limits.timeout, left))
        return None if wanted == recorded else wanted

    async def _cut(self) -> ChildSessionEnd:
        try:
            state, asked = await self._look(), await self._stop_above()
            if state is not None and state.is_open and asked is not None:
                try:
                    stop = Stop(by=asked.by, reason=f"session {self.parent.session} is stopped")
                    state = await self._control.stream.request(stop)
                except CommandRejected:
                    state = await self._look()
            return ChildSessionEnd(state=state, is_cut=True)
        except StoreError as error:
            return ChildSessionEnd(state=None, is_cut=True, problem=str(error))

    async def _look(self) -> AgentState | None:
        """Return the session as it is stored; None when it has not begun, or goes on with another input."""
        state, _ = await load(self._store, self.id, is_sound=True)
        use = state.fold.keys.get(self.parent.effect)
        return state if use is not None and use.execution == state.fold.executions else None


def why_no_answer(state: AgentState) -> str:
    """Return the reason why a session that has ended came to no answer, with what decided and what failed."""
    outcome, step = state.last_continuation_outcome, state.current_step
    vote = outcome.deciding_vote if outcome is not None else None
    reason = state.stop_reason.value if state.stop_reason is not None else state.status.value
    because = f": {vote.reason}" if vote is not None else ""
    said = f" ({step.errors[0].error.without_arguments})" if step is not None and step.has_errors else ""
    return f"({reason}{because}){said}"


def _failed(state: AgentState | None) -> bool:
    """Tell whether a session has ended without an answer."""
    return state is not None and not state.is_open and not state.answered


def _ran_out_of_time(state: AgentState, agent: AnyAgent, left: float | None) -> bool:
    """Tell whether the time of the call was up, which had `left` seconds, and no limit of the agent itself."""
    outcome = state.last_continuation_outcome
    vote = outcome.deciding_vote if outcome is not None else None
    if state.stop_reason is not StopReason.TIME_LIMIT or (vote is not None and vote.setting == "cumulative_timeout"):
        return False
    return is_time_above(agent.limits.timeout, state.agent.limits.timeout if state.agent is not None else None, left)
