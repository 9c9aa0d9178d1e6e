"""`show`: where one session, or one run of a workflow, stands or stood. It only reads."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from steptrail.domain.base import full_form
from steptrail.domain.errors import stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.erasure import ERASED
from steptrail.domain.kernel.record import Recorded
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.exits import Refusal
from steptrail.interfaces.cli.kinds import SHOWN, KindShown, summary_of
from steptrail.interfaces.cli.listing import run_data
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, amount, prefix
from steptrail.interfaces.cli.summaries import clock_time, how_it_stopped, record_data
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import many
from steptrail.projections.scores import RecordedScore, that_count, value_text
from steptrail.projections.state_difference import StateDifference, state_difference
from steptrail.projections.tree import RunTree
from steptrail.runtime.kernel.collector import collector_off


class Stood(NamedTuple):
    """A state, and the events that are told of beside it."""

    state: Any
    records: Sequence[Recorded[Any]]
    scores: Sequence[RecordedScore] = ()


def register(commands: Commands) -> None:
    """Add the commands."""
    show = commands.add("show", _show, "Show where session ID stands, or stood.")
    show.add_argument("id", metavar="ID", type=prefix)
    show.add_argument("--at", type=amount, metavar="N", help="as it was after event N")
    show.add_argument("--from", type=amount, metavar="M", dest="since", help="what has changed since event M")
    show.add_argument("--events", action="store_true", help="list its events instead")
    show.add_argument("--tree", action="store_true", help="list it with the sessions below it instead, and their bill")


def _show_tree(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.events or arguments.at is not None or arguments.since is not None:
        raise Refusal("--tree shows what is stored now of several sessions: leave out --at, --from and --events")

    async def read(trail: Steptrail) -> RunTree:
        return await trail.tree(stream_name((await trail.find_any(arguments.id)).stream_id))

    tree = in_store(arguments, read)
    if output.as_json:
        output.data(_tree_data(tree))
        return
    rows = [
        [
            "· " * depth + stream_name(each.run.stream),
            each.run.name,
            ERASED if each.run.is_erased else each.run.status.value,
            how_it_stopped(each.run.stop_reason, answered=each.run.answered),
            str(each.own_usage.total),
            str(each.usage.total),
        ]
        for depth, each in tree.walk()
    ]
    output.table(["ID", "AGENT", "STATUS", "STOP REASON", "OWN TOKENS", "TREE"], rows)


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
def _show(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.tree:
        return _show_tree(arguments, output)
    at: int | None = arguments.at
    since: int | None = arguments.since
    if arguments.events and since is not None:
        raise Refusal("--from compares two states, and --events lists events: leave one of them out")

    async def read(trail: Steptrail) -> tuple[str, Sequence[Stood]]:
        handle = await trail.find_any(arguments.id)
        stream, newest = handle.stream_id, await handle.state()
        for option, version in (("--at", at), ("--from", since)):
            if version is not None and version > newest.version:
                told = f"session {stream_name(stream)!r} has {newest.version} events"
                raise Refusal(f"{told}: {option} takes a number up to that")
        if arguments.events:
            return stream, [Stood(newest, (await handle.events())[:at])]
        shown = SHOWN.of(stream)
        types = () if shown is None else shown.types

        given = await handle.scores(history=True)

        async def stood(version: int | None) -> Stood:
            state = newest if version is None else await handle.state(at=version)
            scores = [score for score in given if score.version <= state.version]
            records = await handle.history(at=state.version, types=types) if types else ()
            return Stood(state, records, that_count(scores))

        return stream, [await stood(version) for version in ([at] if since is None else [since, at])]

    stream, stood = in_store(arguments, read)
    shown, last = SHOWN.of(stream), stood[-1]
    if arguments.events:
        _print_events(output, stream, last.records)
    elif shown is None:
        raise Refusal(
            f"{stream_name(stream)} is of a kind that `show` has no words for: `show --events` lists its events"
        )
    elif since is not None:
        before, after = (_state_data(shown, each) for each in stood)
        _print_difference(output, (since, last.state.version), state_difference(before, after))
    elif output.as_json:
        output.data(_state_data(shown, last))
    else:
        shown.print_state(output, last.state, last.records)
        rows = [
            [each.name, value_text(each.value), each.by, str(each.execution), str(each.step or ""), each.comment or ""]
            for each in last.scores
        ]
        output.section("scores", ["NAME", "VALUE", "BY", "EXECUTION", "STEP", "COMMENT"], rows)


def _state_data(shown: KindShown, stood: Stood) -> dict[str, JsonValue]:
    scores: list[JsonValue] = [score.to_dict() for score in stood.scores]
    return {**shown.state_data(stood.state, stood.records), "scores": scores}


def _print_difference(output: Output, versions: tuple[int, int], difference: StateDifference) -> None:
    since, at = versions
    if output.as_json:
        changes = [change.to_dict() for change in difference.changes]
        output.data({"from": since, "at": at, "changes": changes, "isCut": difference.is_cut})
        return
    output.line(f"from event {since} to event {at}: {many(len(difference.changes), 'change')}")
    output.lines(one_line(str(change)) for change in difference.changes)
    if difference.is_cut:
        output.note(f"steptrail: these are the first {len(difference.changes)} changes, and there are more")


def _print_events(output: Output, stream: str, records: Sequence[Recorded[Any]]) -> None:
    if output.as_json:
        output.data([record_data(record) for record in records])
        return
    rows = [[str(r.version), clock_time(r.at), r.event.TYPE, summary_of(stream, r.event)] for r in records]
    output.table(["VERSION", "TIME (UTC)", "TYPE", "WHAT"], rows)
