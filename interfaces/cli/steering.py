"""`pause`, `stop`, `requeue`, `fork`, `approve` and the like: commands to a session or a run from any process."""

import argparse
from collections.abc import Awaitable, Callable
from operator import methodcaller
from typing import Any, TypeAlias, cast

from steptrail.domain.errors import stream_name
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.going_on import GivenWords, WayOn, store_given
from steptrail.interfaces.cli.kinds import kind_shown
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import (
    Commands,
    amount,
    by_option,
    count,
    engine_of,
    json_object,
    json_value,
    named,
    prefix,
    who,
)
from steptrail.interfaces.cli.summaries import how_it_stopped
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.steering import SteeredHandle
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.scores import value_said
from steptrail.runtime.agent.result import RunResult

Steered: TypeAlias = SteeredHandle[Any, Any, Any, Any]

_STEERING = {
    "pause": "Pause session or run ID at the next safe point; what is running may end.",
    "stop": "Stop session or run ID for good.",
    "unpause": "Lift the pause of session or run ID: a worker goes on with it.",
    "requeue": "Have a worker retry session or run ID, which came to no answer.",
}
"""The commands that say nothing but who and why, each the name of a method of the handle."""


def register(commands: Commands) -> None:
    """Add the commands."""
    for name, says in _STEERING.items():
        parser = commands.add(name, _steer, says)
        parser.add_argument("id", metavar="ID", type=prefix)
        parser.add_argument("--reason", help="why, for the record")
        by_option(parser)

    fork = commands.add("fork", _fork, "Open another session or run that goes on from the past of ID.")
    fork.add_argument("id", metavar="ID", type=prefix)
    fork.add_argument("--at", type=amount, metavar="N", help="from its past up to event N (default: all of it)")
    fork.add_argument("--before", metavar="MESSAGE", help="from before the run that began with this message, `said:2`")
    fork.add_argument("--into", metavar="ID", help="the id of the fork (default: a new one)")
    fork.add_argument("--reason", help="why, for the record")
    by_option(fork)

    settle = commands.add("settle", _settle, "Say what a call of session or run ID did, whose outcome is unknown.")
    settle.add_argument("id", metavar="ID", type=prefix)
    settle.add_argument("effect", metavar="EFFECT", help="the call's effect id, as `why` prints it")
    verdict = settle.add_mutually_exclusive_group(required=True)
    verdict.add_argument("--result", metavar="JSON", help="it completed with this result")
    verdict.add_argument("--failed", metavar="TEXT", help="it failed")
    verdict.add_argument("--rerun", action="store_true", help="it did nothing: run it again")
    verdict.add_argument("--tell", action="store_true", help="nobody knows: tell the model so")
    settle.add_argument("--reason", help="why, for the record")
    by_option(settle)

    score = commands.add("score", _score, "Record how good somebody finds session or run ID.")
    score.add_argument("id", metavar="ID", type=prefix)
    score.add_argument("name", metavar="NAME", help="of what it is a score, such as helpful")
    score.add_argument("value", metavar="VALUE", help="a number, yes, no, or a label")
    score.add_argument("--by", type=who, required=True, help="who scores, for the record")
    score.add_argument("--comment", help="why, for the record")
    score.add_argument("--execution", type=count, metavar="N", help="its N-th execution (default: the newest)")
    score.add_argument("--step", type=count, metavar="N", help="the N-th step of that execution, of an agent")

    approve = commands.add("approve", _approve, "Let a call of session or run ID run that waits for approval.")
    deny = commands.add("deny", _deny, "Keep a call of session or run ID that waits for approval from running.")
    for parser in (approve, deny):
        parser.add_argument("id", metavar="ID", type=prefix)
        parser.add_argument("approval", metavar="APPROVAL", help="the approval's id, as `why` prints it")
        parser.add_argument("--by", type=who, required=True, help="who answers, for the record")
        parser.add_argument("--reason", help="why, for the record; the model is told the reason of a denial")
    approve.add_argument("--edit", metavar="JSON", help="run it with these arguments instead, an object")
    approve.add_argument("--digest", help="only if its arguments have this digest, as `why` prints it")


def _steer(arguments: argparse.Namespace, output: Output) -> None:
    carried_out(arguments, output, methodcaller(arguments.command, **named(arguments, "reason", "by")))


def _fork(arguments: argparse.Namespace, output: Output) -> None:
    said = named(arguments, "at", "by", "reason")

    def fork(handle: Any) -> Any:
        if arguments.before is None:
            return handle.fork(session=arguments.into, **said)
        if not isinstance(handle, Session):
            raise Refusal("--before: a workflow holds no conversation: --at takes the number of an event")
        return handle.fork(before=whole_effect(handle, arguments.before), session=arguments.into, **said)

    carried_out(arguments, output, fork)


def _settle(arguments: argparse.Namespace, output: Output) -> None:
    result = None if arguments.result is None else json_value("--result", arguments.result)
    who = named(arguments, "by", "reason")

    async def carry(handle: Any) -> Any:
        whole, is_agent = whole_effect(handle, arguments.effect), isinstance(handle, Session)
        if arguments.result is not None:
            said = {"result" if is_agent else "output": result}
            return await handle.settle(whole, "completed", **said, **who)
        if arguments.failed is not None:
            return await handle.settle(whole, "failed", message=arguments.failed, **who)
        if arguments.rerun:
            return await handle.settle(whole, "rerun", **who)
        if is_agent:
            return await handle.settle(whole, "tell", **who)
        raise Refusal("--tell: in a workflow there is no model to tell: --result, --failed or --rerun say what it did")

    carried_out(arguments, output, carry)


def _score(arguments: argparse.Namespace, output: Output) -> None:
    said = named(arguments, "by", "comment", "execution")
    value = value_said(arguments.value)

    async def carry(handle: Any) -> Any:
        if arguments.step is None:
            return await handle.score(arguments.name, value, **said)
        if not isinstance(handle, Session):
            raise Refusal("--step: only the executions of agents have steps that are scored")
        return await handle.score(arguments.name, value, step=arguments.step, **said)

    carried_out(arguments, output, carry)


def _approve(arguments: argparse.Namespace, output: Output) -> None:
    said = named(arguments, "by", "reason", "digest")
    said["arguments"] = (
        None if arguments.edit is None else json_object("--edit", arguments.edit, "arguments have names")
    )
    carried_out(arguments, output, lambda handle: handle.approve(whole_effect(handle, arguments.approval), **said))


def _deny(arguments: argparse.Namespace, output: Output) -> None:
    said = named(arguments, "by", "reason")
    carried_out(arguments, output, lambda handle: handle.deny(whole_effect(handle, arguments.approval), **said))


def whole_effect(handle: Steered, effect: str) -> str:
    """Return the whole id of an effect of a session, which may have been given without the session's id."""
    # The id of the session stands in front of every effect id, and may have been shortened.
    return effect if effect.startswith(f"{handle.id}:") else f"{handle.id}:{effect}"


def carried_out(arguments: argparse.Namespace, output: Output, carry: Callable[[Any], Awaitable[Any]]) -> None:
    """Carry a command to a stream out, from any process, and print the result that came of it, or that of a fork."""

    async def carried(trail: Steptrail) -> tuple[str, Any]:
        handle = await trail.find_any(arguments.id)
        if not isinstance(handle, SteeredHandle):
            raise Refusal(f"{stream_name(handle.stream_id)} is of a kind that takes no commands here")
        came = await carry(handle)
        if isinstance(came, SteeredHandle):
            return came.stream_id, await cast("Any", came).result()
        return handle.stream_id, came

    stream, result = in_store(arguments, carried, read_only=False, engine=engine_of(arguments))
    shown = kind_shown(stream)
    on = shown.how_to_go_on(result.state, GivenWords(store=store_given(arguments)))
    output.answer(shown.result_data(result), f"{stream_name(stream)}: {_said(arguments, result, on)}")


def _said(arguments: argparse.Namespace, result: Any, on: WayOn) -> str:
    state = result.state if isinstance(result, RunResult) else None
    count = len(state.open_approvals) + len(state.open_calls) if state is not None else 0
    match arguments.command, result.status:
        case "approve" | "deny" | "answer", ExecutionStatus.WAITING if count:
            left = "1 more question is open" if count == 1 else f"{count} more questions are open"
            return f"recorded; {left}: {on}"
        case "score", _:
            return "recorded"
        case "fork", status:
            return f"forked, {status.value}; {on} goes on"
        case "pause" | "stop", ExecutionStatus.PAUSED:
            return f"paused; {on} goes on"
        case "pause" | "stop", status if status.is_over:
            answered = isinstance(result, RunResult) and result.answered
            return f"finished, {status.value} ({how_it_stopped(result.stop_reason, answered=answered)})"
        case "unpause" | "requeue", ExecutionStatus.PENDING:
            return f"pending; the next worker goes on with it, or {on} here"
        case "unpause", _:
            return "the request to pause is withdrawn; the process that runs it goes on"
        case "pause" | "stop", _:
            return f"asked to {arguments.command}; the process that runs it will do so"
        case _:
            return f"recorded; {on} goes on"
