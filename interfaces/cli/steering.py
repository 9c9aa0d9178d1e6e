"""`pause`, `stop`, `settle`, `approve`, `deny`: commands to a session from any process, without its agent."""

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from steptrail.domain.errors import NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.exits import Exit, Refusal
from steptrail.interfaces.cli.going_on import how_to_go_on, store_given
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, Parser, prefix, store_of
from steptrail.interfaces.cli.results import result_data
from steptrail.interfaces.cli.summaries import how_it_stopped
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.kernel.json_form import to_json_value

__all__ = ["register"]

Carry = Callable[[Session], Awaitable[RunResult[Any]]]


def register(commands: Commands) -> None:
    """Add the commands."""
    pause = commands.add("pause", _pause, "Pause session ID at the next safe point; what is running may end.")
    stop = commands.add("stop", _stop, "Stop session ID for good.")
    for parser in (pause, stop):
        parser.add_argument("id", metavar="ID", type=prefix)
        parser.add_argument("--reason", help="why, for the record")
        _by(parser)

    settle = commands.add("settle", _settle, "Say what a call of session ID did, whose outcome is unknown.")
    settle.add_argument("id", metavar="ID", type=prefix)
    settle.add_argument("effect", metavar="EFFECT", help="the call's effect id, as `why` prints it")
    verdict = settle.add_mutually_exclusive_group(required=True)
    verdict.add_argument("--result", metavar="JSON", help="it completed with this result")
    verdict.add_argument("--failed", metavar="TEXT", help="it failed")
    verdict.add_argument("--rerun", action="store_true", help="it did nothing: run it again")
    verdict.add_argument("--tell", action="store_true", help="nobody knows: tell the model so")
    _by(settle)

    approve = commands.add("approve", _approve, "Let a call of session ID run that waits for approval.")
    deny = commands.add("deny", _deny, "Keep a call of session ID that waits for approval from running.")
    for parser in (approve, deny):
        parser.add_argument("id", metavar="ID", type=prefix)
        parser.add_argument("approval", metavar="APPROVAL", help="the approval's id, as `why` prints it")
        parser.add_argument("--by", required=True, help="who answers, for the record")
        parser.add_argument("--reason", help="why, for the record; the model is told the reason of a denial")
    approve.add_argument("--edit", metavar="JSON", help="run it with these arguments instead, an object")
    approve.add_argument("--digest", help="only if its arguments have this digest, as `why` prints it")


def _by(parser: Parser) -> None:
    parser.add_argument("--by", default="user", help="who asks, for the record (default: user)")


def _pause(arguments: argparse.Namespace, output: Output) -> int:
    return _carry(arguments, output, lambda session: session.pause(reason=arguments.reason, by=arguments.by))


def _stop(arguments: argparse.Namespace, output: Output) -> int:
    return _carry(arguments, output, lambda session: session.stop(reason=arguments.reason, by=arguments.by))


def _settle(arguments: argparse.Namespace, output: Output) -> int:
    result = None if arguments.result is None else _json("--result", arguments.result)

    async def carry(session: Session) -> RunResult[Any]:
        whole = _whole(session, arguments.effect)
        if arguments.result is not None:
            return await session.settle(whole, "completed", by=arguments.by, result=result)
        if arguments.failed is not None:
            return await session.settle(whole, "failed", by=arguments.by, message=arguments.failed)
        return await session.settle(whole, "rerun" if arguments.rerun else "tell", by=arguments.by)

    return _carry(arguments, output, carry)


def _approve(arguments: argparse.Namespace, output: Output) -> int:
    edited = None if arguments.edit is None else _json("--edit", arguments.edit)
    if edited is not None and not isinstance(edited, dict):
        raise Refusal(f"--edit: {arguments.edit!r} is not a JSON object: arguments have names")

    async def carry(session: Session) -> RunResult[Any]:
        return await session.approve(
            _whole(session, arguments.approval),
            by=arguments.by,
            reason=arguments.reason,
            arguments=edited,
            digest=arguments.digest,
        )

    return _carry(arguments, output, carry)


def _deny(arguments: argparse.Namespace, output: Output) -> int:
    def carry(session: Session) -> Awaitable[RunResult[Any]]:
        return session.deny(_whole(session, arguments.approval), by=arguments.by, reason=arguments.reason)

    return _carry(arguments, output, carry)


def _whole(session: Session, effect: str) -> str:
    # The id of the session stands in front of every effect id, and may have been shortened.
    return effect if effect.startswith(f"{session.session_id}:") else f"{session.session_id}:{effect}"


def _json(option: str, text: str) -> JsonValue:
    def refuse(constant: str) -> JsonValue:
        raise ValueError(f"{constant} is not JSON")

    try:
        value: object = json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise Refusal(f"{option}: it is nested too deep") from None
    except ValueError as error:
        raise Refusal(f"{option}: {text!r} is not JSON ({error}); a text needs its quotes: '\"done\"'") from error
    try:
        return to_json_value(value)
    except NotStorable as error:
        raise Refusal(f"{option}: {error}") from error


def _carry(arguments: argparse.Namespace, output: Output, carry: Carry) -> int:
    async def carried() -> RunResult[Any]:
        async with Steptrail.open(store_of(arguments), create=False) as trail:
            return await carry(await trail.find(arguments.id))

    result = asyncio.run(carried())
    if output.as_json:
        output.data(result_data(result))
    else:
        output.line(f"{result.session_id}: {_said(arguments, result)}")
    return Exit.OK


def _said(arguments: argparse.Namespace, result: RunResult[Any]) -> str:
    state = result.state
    command, on = arguments.command, f"{how_to_go_on(state, store=store_given(arguments))} goes on"
    match command, result.status:
        case "approve" | "deny", ExecutionStatus.WAITING if count := len(state.open_approvals):
            left = "1 more question is open" if count == 1 else f"{count} more questions are open"
            return f"recorded; {left}: {how_to_go_on(state, store=store_given(arguments))}"
        case "settle" | "approve" | "deny", _:
            return f"recorded; {on}"
        case _, ExecutionStatus.PAUSED:
            return f"paused; {on}"
        case _, ExecutionStatus.COMPLETED | ExecutionStatus.FAILED:
            return f"finished, {result.status.value} ({how_it_stopped(result.stop_reason, answered=result.answered)})"
        case _:
            return f"asked to {command}; the process that runs it will do so"
