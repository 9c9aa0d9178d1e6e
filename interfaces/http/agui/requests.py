"""The action that a request asks for: a new session, a message, answers, or only to look on."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from steptrail.domain.agent.call_phases import CallPhase
from steptrail.domain.agent.events import ExecutionPaused
from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.domain.live import LiveUpdate
from steptrail.interfaces.http.agui.config import AguiCaller
from steptrail.interfaces.http.agui.ending import questions
from steptrail.interfaces.http.agui.reading import Answer, RequestRefused, answers, history, new_message
from steptrail.interfaces.http.agui.runs import WORKER, Work
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.clock import SystemClock

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

__all__ = ["Requested", "requested"]

Doing: TypeAlias = Callable[[Session], Awaitable[RunResult[Any]]]


class Requested(NamedTuple):
    """The work to do, whether it brings a new message, and whether the client shows that message first."""

    work: Work
    has_news: bool
    says: bool


_PAUSED_BY_SHUTDOWN = frozenset({WORKER, "caller"})
"""Pauses by these go on by themselves; `caller` stands for a task that was cancelled."""


async def requested(
    trail: Steptrail, agent: AnyAgent, state: AgentState, given: "RunAgentInput", caller: AguiCaller, *, most: int
) -> Requested | None:
    """Return the action that a request asks for; None when it only looks on. Raises `RequestRefused`.

    The id of the user's message is its idempotency key: a request that comes again adds no second message. A new
    session begins with at most so many messages.
    """
    new = new_message(given)
    key = f"agui:{new[0]}" if new is not None else None
    has_news = new is not None and key not in state.fold.keys
    if state.phase is Phase.ABSENT:
        if given.resume:
            raise RequestRefused(404, "there is no such thread, and nothing in it to answer")
        if new is None:
            raise RequestRefused(404, "there is no such thread: begin it with a message of the user")
        if len(given.messages) - 1 > most:
            raise RequestRefused(422, f"a thread begins with at most {most:,} messages before the new one")
        message, past = new[1], history(given.messages[:-1])

        async def start(on_commit: OnCommit) -> RunResult[Any]:
            return await trail.run(
                agent,
                message,
                session=given.thread_id,
                by=caller.name,
                key=key,
                metadata=caller.metadata,
                history=past,
                new=True,
                on_commit=on_commit,
                on_update=_keep_streaming,
            )

        return Requested(start, has_news=True, says=True)
    now = SystemClock().utc()
    asked = [approval for _, approval in questions(state) if now < approval.expires_at]
    given_answers = answers(state, given.resume, now=now) if given.resume else ()
    if asked and has_news and not given.resume:
        raise RequestRefused(
            409, f"this thread waits for answers, send them in `resume`: {', '.join(a.id for a in asked)}"
        )
    if new is not None and has_news:
        message = new[1]
        work = _on(
            trail, state, given_answers, caller, lambda session: session.send(agent, message, by=caller.name, key=key)
        )
        return Requested(work, has_news=True, says=not given_answers)
    if given.resume or (state.is_open and not asked and await _goes_on_by_itself(trail, state)):
        work = _on(trail, state, given_answers, caller, lambda session: session.resume(agent, by=caller.name))
        return Requested(work, has_news=False, says=False)
    return None


def _on(trail: Steptrail, state: AgentState, given: tuple[Answer, ...], caller: AguiCaller, then: Doing) -> Work:
    async def work(on_commit: OnCommit) -> RunResult[Any]:
        session = trail.session(state.agent_id, on_commit=on_commit, on_update=_keep_streaming)
        for answer in given:
            if answer.is_yes:
                await session.approve(
                    answer.approval_id, by=caller.name, reason=answer.reason, arguments=answer.arguments
                )
            else:
                await session.deny(answer.approval_id, by=caller.name, reason=answer.reason)
        return await then(session)

    return work


async def _goes_on_by_itself(trail: Steptrail, state: AgentState) -> bool:
    """Tell whether an open session is to be taken up for somebody who only looks: nobody has stopped it on purpose."""
    if state.phase is not Phase.PAUSED:
        return not any(call.phase is CallPhase.PARKED for call in state.tool_executions)
    events = await trail.session(state.agent_id).events(after=max(0, state.version - 1))
    return any(isinstance(each.event, ExecutionPaused) and each.event.by in _PAUSED_BY_SHUTDOWN for each in events)


def _keep_streaming(update: LiveUpdate) -> None:
    """Make the model stream: a client that comes in the middle of a reply sees it from its beginning."""
