"""The branch of a thread that a request goes on with: the one whose conversation its client shows.

A thread begins as the session of its id. A client that has a message edited, or answered once more, sends the
conversation as it is shown from then on, and the protocol has no other word for it. So what people said is compared.
Where a client leaves some of it out, the session stays as it is, and the request goes on in a fork, which is a branch
of the thread from then on. Forks that others made of the session are none.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from steptrail.domain.agent.events import ExecutionStarted, MessagesAppended, SessionForked
from steptrail.domain.agent.ids import SessionId, stream_of
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.interfaces.http.agui.config import AguiCaller, AguiConfig
from steptrail.interfaces.http.agui.conversation import is_shown, said_origins, wire_messages
from steptrail.interfaces.http.agui.reading import RequestRefused, Unsaid, new_message, parts_of, said_in
from steptrail.interfaces.http.agui.watching import put_together
from steptrail.interfaces.python.branching import Input, input_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.files import with_stored_bytes
from steptrail.runtime.kernel.ids import session_for_key

if TYPE_CHECKING:
    from ag_ui.core import AssistantMessage, Message as WireMessage, RunAgentInput, UserMessage

_MOST_UNSAID = 10
"""So many messages a request may say at once: those that were refused before, or never arrived, and the new one."""


class Overlap(NamedTuple):
    """How far a client shows the conversation of a session: so many messages of people, and replies, from the first on.

    `last` is the id of the last of those messages. `cut` is that of the first one that the client leaves out, and
    `unsaid` are messages that it has beyond `last`; None and none where both show the same.
    """

    kept: int
    replies: int
    last: str | None
    cut: str | None
    unsaid: "tuple[UserMessage, ...]"
    is_whole: bool
    """Whether the client leaves nothing of the session out, and shows no other reply."""


def overlap(state: AgentState, theirs: "Sequence[WireMessage]") -> Overlap:
    """Compare what a client shows with a session. What a hook said the client may not have been told."""
    ours, _ = wire_messages(state, AguiConfig())
    hooks = {shown_as for shown_as, origin in said_origins(state).items() if origin.hook is not None}
    said, kept = [message for message in theirs if message.role == "user"], 0
    last = cut = None
    for our in ours:
        if our.role != "user":
            continue
        if kept < len(said) and parts_of(our) == parts_of(said[kept]):
            kept, last = kept + 1, our.id
        elif our.id not in hooks:
            cut = our.id
            break
    replies, written = 0, _replies(theirs)
    for our, their in zip(_replies(ours), written, strict=False):
        if our.id != their.id and (our.content or "") != (their.content or ""):
            break
        replies += 1
    is_whole = cut is None and replies == len(written)
    return Overlap(kept, replies, last, cut, tuple(said[kept:]), is_whole)


def _replies(messages: "Sequence[WireMessage]") -> "list[AssistantMessage]":
    return [each for each in messages if each.role == "assistant"]


class Branches:
    """The branches of the threads of one endpoint."""

    def __init__(self, trail: Steptrail, config: AguiConfig) -> None:
        self._trail, self._store, self._config = trail, trail.store, config

    async def shown(
        self, given: "RunAgentInput", thread: AgentState, caller: AguiCaller
    ) -> tuple[AgentState, Sequence[Unsaid]]:
        """Return the session in which a request goes on, and what it says there. A branch that it needs is made.

        Raises `RequestRefused` for a conversation that is not the thread's and could be no branch of it.
        """
        branches = await self._newest_first(thread)
        if self._config.branches == "join" or not given.messages:
            newest = await self._state(branches[0], thread)
            return newest, self._joining(given, newest)
        state, found = await self._nearest(given, branches, thread)
        if found.unsaid:
            says = self._unsaid(given, found)
            if found.cut is None:
                return state, says
            begun = await input_of(self._store, SessionId(state.agent_id), found.cut)
            return await self._branch(given, thread, state, begun, caller, mark=says[0].id), says
        last = given.messages[-1]
        if last.role != "user" or found.last is None or given.resume:
            return state, ()
        if state.is_open and said_origins(state)[found.last].execution == state.fold.executions:
            return state, ()  # it is being answered
        for branch in branches:
            if await self._was_asked(branch, given.run_id):
                return await self._state(branch, thread), ()  # the same request came before
        begun = await input_of(self._store, SessionId(state.agent_id), found.last)
        message = await with_stored_bytes(self._store, begun.message)
        return await self._branch(given, thread, state, begun, caller, mark=given.run_id), [said_in(last, message)]

    def _joining(self, given: "RunAgentInput", state: AgentState) -> Sequence[Unsaid]:
        new = new_message(given)
        is_new = new is not None and f"agui:{new.id}" not in state.fold.keys and not is_shown(state, new.id)
        return [new] if new is not None and is_new else ()

    def _unsaid(self, given: "RunAgentInput", found: Overlap) -> Sequence[Unsaid]:
        unsaid = found.unsaid
        if len(unsaid) > _MOST_UNSAID:
            raise RequestRefused(422, f"a request says at most {_MOST_UNSAID} messages, and this one {len(unsaid):,}")
        behind = given.messages[given.messages.index(unsaid[0]) :]
        # A message that was lost while the model answered stands before the reply, which is ours.
        if not found.is_whole and any(message.role in {"assistant", "tool"} for message in behind):
            raise RequestRefused(409, f"from {unsaid[0].id!r} on this is not what was said in the thread: load it anew")
        return [said_in(message) for message in unsaid]

    async def _nearest(
        self, given: "RunAgentInput", branches: Sequence[str], thread: AgentState
    ) -> tuple[AgentState, Overlap]:
        best, nearest = thread, Overlap(-1, 0, None, None, (), is_whole=False)
        for branch in branches:
            state = await self._state(branch, thread)
            found = await put_together(partial(overlap, state, given.messages), state)
            if _rank(found) > _rank(nearest):
                best, nearest = state, found
            if found.is_whole:
                break
        return best, nearest

    async def _newest_first(self, thread: AgentState) -> Sequence[str]:
        """Return the streams of the branches in which something was said, and last that of the thread itself."""
        stream = stream_of(SessionId(thread.agent_id))
        level, rows = [stream], list[tuple[int, str]]()
        while level:
            found = await self._store.index(IndexQuery(forked_from=level))
            branches = [row for row in found if await self._is_branch(row.stream, thread)]
            level = [row.stream for row in branches]
            rows += [(row.started_at, row.stream) for row in branches if row.version > 1]
        return [*(stream for _, stream in sorted(rows, reverse=True)), stream]

    async def _state(self, stream: str, thread: AgentState) -> AgentState:
        return thread if id_of(stream) == thread.agent_id else await self._trail.session(id_of(stream)).state()

    async def _is_branch(self, stream: str, thread: AgentState) -> bool:
        first = (await self._store.read(stream, limit=1)).records
        return bool(first) and isinstance(first[0].event, SessionForked) and first[0].event.reason == _reason(thread)

    async def _was_asked(self, stream: str, run_id: str) -> bool:
        types = (ExecutionStarted.TYPE, MessagesAppended.TYPE)
        async for _, _, record in self._store.log(stream=stream, types=types):
            if record.head is not None and record.head.causation == run_id:
                return True
        return False

    async def _branch(
        self,
        given: "RunAgentInput",
        thread: AgentState,
        state: AgentState,
        begun: Input,
        caller: AguiCaller,
        *,
        mark: str,
    ) -> AgentState:
        if self._config.branches == "refuse":
            raise RequestRefused(
                409, "this leaves out what was said in the thread, which has no branches: load it anew"
            )
        if given.resume:
            raise RequestRefused(409, "what is answered was asked in a conversation that this one leaves out")
        # The same request comes to the same branch, whatever has become of the thread meanwhile.
        into = session_for_key(f"agui {thread.agent_id} {begun.stream} {begun.version} {mark}")
        try:
            await self._trail.session(state.agent_id).fork(
                before=begun.id, session=into, by=caller.name, reason=_reason(thread)
            )
        except CommandRejected:
            if not await self._is_branch(stream_of(SessionId(into)), thread):
                raise
        return await self._trail.session(into).state()


def _rank(found: Overlap) -> tuple[int, int, bool]:
    return found.kept, found.replies, found.cut is None


def _reason(thread: AgentState) -> str:
    return f"a branch of the thread {thread.agent_id!r}"
