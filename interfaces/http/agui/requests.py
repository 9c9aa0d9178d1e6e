"""The action that a request asks for: a new session, a message, answers, or only to look on.

An action is stored and not done: the worker of the endpoint does it, or another one.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from steptrail.domain.agent.phases import Phase
from steptrail.domain.agent.state import AgentState
from steptrail.interfaces.http.agui.config import AguiCaller, AguiConfig
from steptrail.interfaces.http.agui.ending import questions
from steptrail.interfaces.http.agui.front_tools import left_by_the_user, results_in, tools_of
from steptrail.interfaces.http.agui.reading import Answer, RequestRefused, Unsaid, answers, history, new_message
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import AnyAgent
from steptrail.runtime.agent.agent_journal import OnCommit
from steptrail.runtime.agent.unfit import unfit

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput

Storing: TypeAlias = Callable[[OnCommit], Awaitable[object]]
"""Stores what is wanted, and tells what of it was new."""


class Requested(NamedTuple):
    """The action, and whether the client shows the message of it already."""

    store: Storing
    says: bool


def _refuse_unfit(agent: AnyAgent, state: AgentState, answer: Answer, now: int) -> None:
    """Raise `RequestRefused` for other arguments that do not fit the tool: its call would fail, and the run with it."""
    for call, approval in questions(state) if answer.is_yes and answer.arguments is not None else ():
        tool = agent.tools.get(call.name) if approval.id == answer.approval_id else None
        if (wrong := unfit(tool, answer.arguments, None, now)) is not None:
            raise RequestRefused(422, f"the editedArgs of {answer.approval_id!r} do not fit: {wrong.message}")


async def requested(
    trail: Steptrail,
    agent: AnyAgent,
    state: AgentState,
    given: "RunAgentInput",
    caller: AguiCaller,
    config: AguiConfig,
    *,
    says: "Sequence[Unsaid]",
    most: int,
) -> Requested | None:
    """Return the action that a request asks for; None when it only looks on. Raises `RequestRefused`.

    A known session is told what it `says`, with the id of each message as its idempotency key: a request that comes
    again adds no second message. A new session begins with the last message, and with at most `most` before it.
    """
    if state.phase is Phase.ABSENT:
        first = new_message(given)
        if given.resume:
            raise RequestRefused(404, "there is no such thread, and nothing in it to answer")
        if first is None:
            raise RequestRefused(404, "there is no such thread: begin it with a message of the user")
        if len(given.messages) - 1 > most:
            raise RequestRefused(422, f"a thread begins with at most {most:,} messages before the new one")
        past, tools = history(given.messages[:-1]), tools_of(given, agent, config)

        async def start(on_commit: OnCommit) -> None:
            await trail.start(
                agent,
                first.message,
                session=given.thread_id,
                by=caller.name,
                key=f"agui:{first.id}",
                metadata=caller.metadata,
                history=past,
                external_tools=tools,
                new=True,
                cause=given.run_id,
                on_commit=on_commit,
                context=caller.context,
            )

        return Requested(start, says=True)
    now = trail.clock.utc()
    asked = [approval for _, approval in questions(state) if now < approval.expires_at]
    given_answers = await answers(trail.session(state.agent_id), state, given.resume, now=now) if given.resume else ()
    for each in given_answers:
        _refuse_unfit(agent, state, each, now)
    if asked and says and not given_answers:
        raise RequestRefused(
            409, f"this thread waits for answers, send them in `resume`: {', '.join(a.id for a in asked)}"
        )
    results = results_in(given, state, config, now)
    left = list(left_by_the_user(state, results, config, now)) if says else []
    if not says and not given_answers and not results:
        return None
    front_tools = tools_of(given, agent, config) if says else []
    context = caller.context if not state.fold.executions else None  # a branch from before the first message has none

    async def add(on_commit: OnCommit) -> None:
        session = trail.session(state.agent_id, on_commit=on_commit)
        for each in given_answers:
            if each.is_yes:
                await session.approve(each.approval_id, by=caller.name, reason=each.reason, arguments=each.arguments)
            else:
                await session.deny(each.approval_id, by=caller.name, reason=each.reason)
        for result in results:
            await session.answer(**result._asdict(), by=caller.name)
        for new in says:
            await session.post(
                agent,
                new.message,
                by=caller.name,
                key=f"agui:{new.id}",
                external_tools=front_tools,
                context=context,
                cause=given.run_id,
            )
        # They come last: with them the run goes on, and its model is to read what the user said instead.
        for result in left:
            await session.answer(**result._asdict(), by=caller.name)

    return Requested(add, says=bool(results or left) or not given_answers)
