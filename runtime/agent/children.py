"""The session below an effect, such as a tool call: how it is begun, and with which limits it goes on."""

from collections.abc import Callable

from msgspec import structs

from steptrail.domain.agent.commands import Retry, Start
from steptrail.domain.agent.deciding_error import last_failure
from steptrail.domain.agent.ids import SessionId
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.limits import Limits
from steptrail.domain.errors import SessionBusy
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import StopReason
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.control import SessionControl
from steptrail.runtime.agent.deadline import is_time_above, shortest
from steptrail.runtime.kernel.child import Child, ChildEnd
from steptrail.runtime.kernel.child_place import ChildPlace
from steptrail.runtime.kernel.files import with_stored_bytes


class ChildSessionEnd(ChildEnd[AgentState]):
    """The end of one run of a child session."""

    __slots__ = ()

    @property
    def usage(self) -> BilledUsage | None:
        """The bill of its session so far, with all below it; None when that is not known."""
        return self.state.fold.bill if self.state is not None else None

    def _has_answered(self, state: AgentState) -> bool:
        return state.answered and state.stop_reason not in {StopReason.TIME_LIMIT, StopReason.USER_REQUESTED}


class ChildSession(Child[AgentState, ChildSessionEnd]):
    """The session of one tool call."""

    def __init__(self, place: ChildPlace) -> None:
        self._control = SessionControl(place.environment, SessionId(place.id))
        super().__init__(place, self._control.stream, ChildSessionEnd, above=f"session {place.parent.session}")

    async def run(
        self,
        agent: AnyAgent,
        said: Message,
        *,
        within: float | None = None,
        context: Callable[[], JsonValue] = lambda: None,
    ) -> ChildSessionEnd:
        """Have `agent` answer what is `said`, or go on with that answer; return how the session ended.

        The bytes of files that the run above names are read for the session, which stores that it names them too.

        A session that has begun keeps its context, and another one has what `context` returns. The session gets at most
        `within` seconds, also when its own limits are wider, and what is lent to its place narrows these. While another
        process runs it, this waits for the end; but if the run of the call was taken over, the session is taken over as
        well. A cancellation of the call pauses the session, or stops it if the run of the call is to stop. That is
        returned as an end too, and not raised, so that the bill is known.
        """

        async def go_on(left: float | None) -> tuple[AgentState, bool]:
            state = await self._go_on(agent, said, await self._limits(agent, left), context)
            return state, _ran_out_of_time(state, agent, left)

        return await self._driven(within, go_on)

    async def _go_on(
        self, agent: AnyAgent, said: Message, limits: Limits | None, context: Callable[[], JsonValue]
    ) -> AgentState:
        if self._place.retry_key is not None and _failed(await self._look()):
            worker, key = self._place.environment.worker, self._place.retry_key
            again = Retry(agent=agent.snapshot, worker=worker, by="parent", key=key, limits=limits)
            return (await self._control.retry(agent, again)).state
        keeps_its_own = agent.context is None or await self._look() is not None
        try:
            start = Start(
                input=await self._with_files(said),
                agent=agent.snapshot,
                worker=self._place.environment.worker,
                key=self._place.parent.effect,
                parent=self._place.parent,
                metadata=dict(self._place.metadata),
                context=None if keeps_its_own else context(),
            )
            return (await self._control.run(agent, start, limits=limits)).state
        except SessionBusy:
            state = await self._look()
            if not self._take_over or state is None or not state.is_open:
                raise
        self._take_over = False
        return await self._control.resume(agent, take_over=True, limits=limits)

    async def _with_files(self, said: Message) -> Message:
        """Return the message with the bytes of its files. A session that has begun has stored them."""
        if not said.files or await self._look() is not None:
            return said
        return await with_stored_bytes(self._place.environment.store, said)

    async def _limits(self, agent: AnyAgent, left: float | None) -> Limits | None:
        """Return the limits of the next segment; None when they are those that hold anyway, or there is none."""
        state = await self._look()
        if state is not None and self._control.only_waits(state, agent):
            return None
        is_begun = state is not None and not (self._place.retry_key is not None and _failed(state))
        recorded = state.agent.limits if is_begun and state is not None and state.agent is not None else agent.limits
        lent = self._place.lent
        held = recorded if lent is None else lent.limits(agent.limits, recorded)
        wanted = structs.replace(held, timeout=shortest(agent.limits.timeout, left))
        return None if wanted == recorded else wanted


def why_no_answer(state: AgentState) -> str:
    """Return the reason why a session that has ended came to no answer, with what decided and what failed."""
    outcome, failed = state.last_continuation_outcome, last_failure(state)
    vote = outcome.deciding_vote if outcome is not None else None
    reason = state.stop_reason.value if state.stop_reason is not None else state.status.value
    because = f": {vote.reason}" if vote is not None else ""
    said = f" ({failed.error.without_arguments})" if failed is not None else ""
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
