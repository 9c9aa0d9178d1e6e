"""`run`, `resume`, `retry` and `send`: the commands that run an agent or a workflow here, with live progress.

Ctrl-C, SIGTERM and the end of the terminal cancel the run, which pauses it; the exit code then says so.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from msgspec import structs

from steptrail.domain.agent.ids import STREAM_PREFIX as AGENTS, SessionId, checked_session_id
from steptrail.domain.agent.retrying import can_be_retried
from steptrail.domain.agent.state import AgentState
from steptrail.domain.continuation.criteria.limit import LimitUnit
from steptrail.domain.continuation.limits import LIMITS, Limits
from steptrail.domain.errors import InvalidSetting, SessionNotFound, stream_name
from steptrail.domain.flow.ids import STREAM_PREFIX as FLOWS
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.interfaces.cli.ending import endings, to_the_end, when_asked_to_end
from steptrail.interfaces.cli.exits import Exit, Refusal, exit_of
from steptrail.interfaces.cli.going_on import WayOn, given_again
from steptrail.interfaces.cli.kinds import kind_shown, result_told
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import (
    Commands,
    Parser,
    agent_options,
    asking_options,
    count,
    engine_of,
    json_value,
    named,
    option_of,
    prefix,
    seconds,
    store_of,
)
from steptrail.interfaces.cli.progress import FlowProgress, Progress
from steptrail.interfaces.python.flow_files import BroughtCode
from steptrail.interfaces.python.loading import close_models, load_runnable
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.ids import session_or_unnamed

if TYPE_CHECKING:
    from steptrail.domain.flow.state import FlowState
    from steptrail.runtime.flow.result import FlowResult

_EXITS = (
    "Exit codes: 0 completed, 1 failed, 2 refused, 3 stopped by a limit, a guard or a user, 4 paused or waiting, "
    "5 another process runs the session, 6 a workflow completed with recorded errors."
)

_READERS: Mapping[LimitUnit, tuple[Callable[[str], object], str]] = {
    "count": (count, "N"),
    "seconds": (seconds, "S"),
    "usd": (str, "USD"),
}
"""How the number of a limit is read, and what stands for it in the help."""


Run: TypeAlias = Callable[[Any, Any, Any, Any], Awaitable[Any]]
"""Runs an agent, or a workflow, in a trail, through the handle of its session or run, which tells the progress."""


def register(commands: Commands) -> None:
    """Add the commands."""
    run = commands.add("run", _run, "Answer INPUT with AGENT; repeating the command is safe.", exits=_EXITS)
    asking_options(run)

    resume = commands.add("resume", _resume, "Go on with the unfinished run of session ID.", exits=_EXITS)
    agent_options(resume)
    resume.add_argument("id", metavar="ID", type=prefix)
    resume.add_argument("--take-over", action="store_true", help="take it from the process that runs it")
    resume.add_argument("--strict", action="store_true", help="refuse an agent that has changed since")
    limit_options(resume)

    retry = commands.add("retry", _retry, "Let the run of session ID go on that came to no answer.", exits=_EXITS)
    agent_options(retry)
    retry.add_argument("id", metavar="ID", type=prefix)
    retry.add_argument("--reason", help="why, for the record")
    retry.add_argument("--key", help="an idempotency key: the same key is one retry")
    limit_options(retry)

    send = commands.add("send", _send, "Say TEXT to session ID and run what follows from it.", exits=_EXITS)
    agent_options(send)
    send.add_argument("id", metavar="ID", type=prefix)
    send.add_argument("text", metavar="TEXT")
    send.add_argument("--key", help="an idempotency key: the same text with the same key is sent once")


def limit_options(parser: Parser) -> None:
    """Add an option for each limit that is a number."""
    for name, limit in LIMITS.items():
        if limit.unit is not None:
            reader, metavar = _READERS[limit.unit]
            parser.add_argument(option_of(name), type=reader, metavar=metavar, help=limit.counts)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    chosen = checked_session_id(session_or_unnamed(arguments.id, arguments.key))
    value = cache(partial(json_value, "the INPUT of a workflow", arguments.input))
    said = named(arguments, "by", "key", "context", "metadata")

    async def run(trail: Any, given: Any, handle: Any, progress: Progress | FlowProgress) -> Any:
        if isinstance(progress, Progress):
            with suppress(SessionNotFound):
                progress.look_at(await handle.state())
        asked: Any = value() if isinstance(progress, FlowProgress) else arguments.input
        watched: dict[str, Any] = {"on_commit": progress, "on_update": progress.on_update}
        return await trail.run(given, asked, session=handle.id, **watched, **said)

    return _driven(arguments, output, run, check=value, chosen=chosen)


def _tell_of_stored(output: Output, result: "RunResult[Any] | FlowResult", arguments: argparse.Namespace) -> None:
    can_go_on = can_be_retried(result.state) if isinstance(result, RunResult) else result.error is not None
    on = f"; {_way_on(result.state, arguments)} goes on" if can_go_on else ""
    output.note(f"steptrail: execution {result.execution_id} was given this before, and nothing was run now{on}")


def _resume(arguments: argparse.Namespace, output: Output) -> int:
    how = named(arguments, "take_over", "strict", "by")

    async def run(trail: Any, given: Any, handle: Any, progress: Progress | FlowProgress) -> Any:
        state = await handle.state()
        if not state.is_open:
            output.note(f"steptrail: it has finished; {_way_on(state, arguments)} goes on")
            return kind_shown(handle.stream_id).result(state)
        if not isinstance(progress, Progress):
            return await handle.resume(given, **how)
        progress.look_at(state)
        limits = _limits(arguments, state.agent.limits if state.agent else Limits())
        return await handle.resume(given, limits=limits, context=arguments.context, **how)

    return _driven(arguments, output, run, check=partial(_refuse_of_a_flow, arguments))


def _retry(arguments: argparse.Namespace, output: Output) -> int:
    how = named(arguments, "by", "reason", "key")

    async def run(trail: Any, given: Any, handle: Any, progress: Progress | FlowProgress) -> Any:
        if isinstance(given, Agent):
            how.update(limits=_limits(arguments, given.limits), context=arguments.context)
        return await handle.retry(given, **how)

    return _driven(arguments, output, run, check=partial(_refuse_of_a_flow, arguments))


def _refuse_of_a_flow(arguments: argparse.Namespace) -> None:
    given = [name for name in ("context", *LIMITS) if getattr(arguments, name, None) is not None]
    if given:
        raise Refusal(f"{option_of(given[0])}: {arguments.agent} is a workflow, which goes on with its own options")


def limits_given(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the limits that were given, by their settings."""
    return {name: value for name in LIMITS if (value := getattr(arguments, name, None)) is not None}


def _limits(arguments: argparse.Namespace, usual: Limits) -> Limits | None:
    """Return the usual limits with those that were given; None when none were."""
    changes: dict[str, Any] = limits_given(arguments)
    try:
        return structs.replace(usual, **changes) if changes else None
    except InvalidSetting as error:
        raise Refusal(f"{option_of(error.field)}: {error.why}") from error


def _send(arguments: argparse.Namespace, output: Output) -> int:
    async def run(trail: Any, agent: Any, handle: Any, progress: Progress) -> Any:
        progress.look_at(await handle.state())
        result = await handle.send(agent, arguments.text, **named(arguments, "by", "key", "context"))
        if exit_of(result) is Exit.BUSY:
            output.note("steptrail: it is delivered; another process runs the session and will answer it")
        return result

    def refuse() -> NoReturn:
        raise Refusal(f"{arguments.agent} is a workflow, to which nothing can be said: `run` begins with an input")

    return _driven(arguments, output, run, check=refuse)


def _driven(
    arguments: argparse.Namespace,
    output: Output,
    run: Run,
    *,
    check: Callable[[], object],
    chosen: SessionId | None = None,
) -> int:
    """Run what the command names, and print the result.

    A session id that was not `chosen` is looked up, in a store that is there. `check` raises `Refusal` for what a
    workflow cannot be given, before anything is stored.
    """
    block = load_runnable(arguments.agent, BroughtCode(arguments.use))

    async def driven() -> int:
        async with AsyncExitStack() as stack:
            given = await stack.enter_async_context(block)
            stack.push_async_callback(close_models, given)
            is_agent = isinstance(given, Agent)
            if not is_agent:
                check()
            opened = Steptrail.open(store_of(arguments), create=chosen is not None, engine=engine_of(arguments))
            trail = await stack.enter_async_context(opened)
            stream = await _stream(trail, arguments, chosen, of=AGENTS if is_agent else FLOWS)
            output.live(stream_name(stream))
            task = asyncio.current_task()
            assert task is not None  # noqa: S101 - a coroutine runs in a task
            when_asked_to_end(task.cancel, endings())  # which pauses the run, as Ctrl-C does
            progress: Any = FlowProgress(output.live)
            if is_agent:
                progress = Progress(output.live, output.writing if output.shows_writing else None)
            handle_of: Any = trail.session if is_agent else trail.flow
            handle = handle_of(id_of(stream), on_commit=progress, on_update=progress.on_update)
            try:
                result = await run(trail, given, handle, progress)
            except asyncio.CancelledError:
                # From here on it is an ordinary end, with a result to print.
                task.uncancel()
                return await _interrupted(handle, output, arguments)
            if result.stored:
                _tell_of_stored(output, result, arguments)
            return result_told(output, stream, result, given_again(arguments))

    return to_the_end(driven())


async def _stream(trail: Steptrail, arguments: argparse.Namespace, chosen: SessionId | None, *, of: str) -> str:
    if chosen is not None:
        return of + chosen
    name: str = arguments.id
    if of == AGENTS:
        return (await trail.find(name)).stream_id
    return (await trail.find_any(name if name.startswith(of) else of + name)).stream_id


async def _interrupted(handle: Any, output: Output, arguments: argparse.Namespace) -> int:
    try:
        state = await handle.state()
    except SessionNotFound:
        output.note("steptrail: interrupted before anything was started")
        return Exit.OPEN
    result = kind_shown(handle.stream_id).result(state)
    code = result_told(output, handle.stream_id, result, given_again(arguments))
    if not state.is_open:
        return code
    output.note(f"steptrail: interrupted; {_way_on(state, arguments)} goes on")
    return Exit.OPEN


def _way_on(state: "AgentState | FlowState", arguments: argparse.Namespace) -> WayOn:
    shown = kind_shown(AGENTS if isinstance(state, AgentState) else FLOWS)
    return shown.how_to_go_on(state, given_again(arguments))
