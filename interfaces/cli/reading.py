"""`show`: where one session, or one run of a workflow, stands or stood. It only reads."""

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from steptrail.domain.base import full_form
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.erasure import ERASED
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli.exits import Exit, Refusal
from steptrail.interfaces.cli.kinds import shown_of, summary_of
from steptrail.interfaces.cli.listing import run_data
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, amount, prefix, store_of
from steptrail.interfaces.cli.summaries import clock_time, how_it_stopped, record_data
from steptrail.interfaces.python.naming import name_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.tree import RunTree
from steptrail.runtime.kernel.collector import collector_off

__all__ = ["register"]


def register(commands: Commands) -> None:
    """Add the commands."""
    show = commands.add("show", _show, "Show where session ID stands, or stood.")
    show.add_argument("id", metavar="ID", type=prefix)
    show.add_argument("--at", type=amount, metavar="N", help="as it was after event N")
    show.add_argument("--events", action="store_true", help="list its events instead")
    show.add_argument("--tree", action="store_true", help="list it with the sessions below it instead, and their bill")


def _show_tree(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.events or arguments.at is not None:
        raise Refusal("--tree shows what is stored now of several sessions: leave out --at and --events")

    async def read() -> RunTree:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            return await trail.tree(name_of((await trail.find_any(arguments.id)).stream_id))

    tree = asyncio.run(read())
    if output.as_json:
        output.data(_tree_data(tree))
        return Exit.OK
    rows = [
        [
            "· " * depth + name_of(each.run.stream),
            each.run.name,
            ERASED if each.run.is_erased else each.run.status.value,
            how_it_stopped(each.run.stop_reason, answered=each.run.answered),
            str(each.own_usage.total),
            str(each.usage.total),
        ]
        for depth, each in tree.walk()
    ]
    output.table(["ID", "AGENT", "STATUS", "STOP REASON", "OWN TOKENS", "TREE"], rows)
    return Exit.OK


def _tree_data(tree: RunTree) -> dict[str, JsonValue]:
    parent = tree.run.parent
    return {
        **run_data(tree.run),
        "parent": full_form(parent) if parent is not None else None,
        "ownUsage": dict(tree.own_usage.to_dict()),
        "usage": dict(tree.usage.to_dict()),
        "children": [_tree_data(child) for child in tree.children],
    }


@collector_off()
def _show(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.tree:
        return _show_tree(arguments, output)
    at: int | None = arguments.at

    async def read() -> tuple[str, Any, Sequence[Recorded[Any]]]:
        async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
            handle = await trail.find_any(arguments.id)
            stream, state = handle.stream_id, await handle.state()
            if at is not None and at > state.version:
                told = f"session {name_of(stream)!r} has {state.version} events: --at takes a number up to that"
                raise Refusal(told)
            if arguments.events:
                return stream, state, (await handle.events())[:at]
            if at is not None:
                state = await handle.state(at=at)
            shown = shown_of(stream)
            types = () if shown is None else shown.types
            return stream, state, await handle.history(at=state.version, types=types) if types else ()

    stream, state, records = asyncio.run(read())
    shown = shown_of(stream)
    if arguments.events:
        _print_events(output, stream, records)
    elif shown is None:
        raise Refusal(f"{name_of(stream)} is of a kind that `show` has no words for: `show --events` lists its events")
    elif output.as_json:
        output.data(shown.state_data(state, records))
    else:
        shown.print_state(output, state, records)
    return Exit.OK


def _print_events(output: Output, stream: str, records: Sequence[Recorded[Any]]) -> None:
    if output.as_json:
        output.data([record_data(record) for record in records])
        return
    rows = [[str(r.version), clock_time(r.at), r.event.TYPE, summary_of(stream, r.event)] for r in records]
    output.table(["VERSION", "TIME (UTC)", "TYPE", "WHAT"], rows)
