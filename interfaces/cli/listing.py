"""`runs`: what is in the store.

The index of the store tells of each session how it stands, and is never late. Filters and orders that it has not are
asked of the read models, and each row is one run then: one execution.
"""

import argparse
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from steptrail.domain.errors import stream_name
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.filtering import VIEW_FILTERS, add_filters, list_asked, needs_views
from steptrail.interfaces.cli.going_on import store_given, typed, valued
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, Parser, amount, moment, named, one_of, option_of, prefix
from steptrail.interfaces.cli.summaries import clock_time, how_it_stopped
from steptrail.interfaces.python.lists import WAIT_KINDS
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import many

PAGE = 50
_CRASHED = "crashed"
_FILTERS = ("status", "stop_reason", "agent", "waiting_for", "parent", "since", "until")


def register(commands: Commands) -> None:
    """Add the command."""
    runs = commands.add("runs", _runs, "List the sessions, the one that began last first.")
    found_by(runs)
    one_of(runs, "--waiting-for", WAIT_KINDS, "that wait for this")
    paged(runs)
    add_filters(runs)


def found_by(parser: Parser) -> None:
    """Add the filters that lists of sessions have in common."""
    statuses = [*(status.value for status in ExecutionStatus), _CRASHED]
    one_of(parser, "--status", statuses, "that stand so")
    one_of(parser, "--stop-reason", [reason.value for reason in StopReason], "whose last run stopped for this reason")
    parser.add_argument("--agent", metavar="NAME", help="sessions of this agent, runs of this workflow")
    parser.add_argument("--parent", type=prefix, metavar="ID", help="that session ID, or one below it in a call, began")
    parser.add_argument("--since", type=moment, metavar="TIME", help="that began then or later: 12h, 7d, 2026-03-01")
    parser.add_argument("--until", type=moment, metavar="TIME", help="that began before")


def paged(parser: Parser) -> None:
    """Add the options of a page."""
    parser.add_argument("--limit", type=amount, metavar="N", default=PAGE, help=f"at most N sessions ({PAGE})")
    parser.add_argument("--after", type=prefix, metavar="ID", help="what comes after ID: the end of the page before")


async def place_of(trail: Steptrail, name: str | None) -> str | None:
    """Return the whole name of a session that was named; None for none."""
    return None if name is None else stream_name((await trail.find_any(name)).stream_id)


async def narrowed(trail: Steptrail, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the filters of `found_by` say, for a method of ours that takes them."""
    is_crashed = arguments.status == _CRASHED
    given = named(arguments, "stop_reason", "agent", "since", "until")
    parent = await place_of(trail, arguments.parent)
    return {**given, "status": None if is_crashed else arguments.status, "crashed": is_crashed, "parent": parent}


def _runs(arguments: argparse.Namespace, output: Output) -> None:
    if needs_views(arguments):
        return list_asked(arguments, output, next_page=_next_page)
    limit: int = arguments.limit

    async def listed(trail: Steptrail) -> Sequence[RunSummary]:
        return await trail.runs(
            waits_for=arguments.waiting_for,
            limit=limit + 1,
            after=await place_of(trail, arguments.after),
            **await narrowed(trail, arguments),
        )

    found = in_store(arguments, listed)
    runs = found[:limit]
    if output.as_json:
        output.data([run_data(run) for run in runs])
        return
    is_priced = any(run.cost is not None for run in runs)
    rows = [
        [
            stream_name(run.stream),
            run.name,
            ", ".join([_status(run), *marks(run)]),
            how_it_stopped(run.stop_reason, answered=run.answered),
            str(run.steps),
            f"{run.active_seconds:.2f} s",
            *([str(run.cost) if run.cost is not None else ""] if is_priced else []),
            clock_time(run.updated_at),
        ]
        for run in runs
    ]
    cost = ["COST"] if is_priced else []
    output.table(["ID", "AGENT", "STATUS", "STOP REASON", "STEPS", "ACTIVE", *cost, "UPDATED (UTC)"], rows)
    if len(runs) < len(found):
        output.note(f"steptrail: there are more: `{_next_page(arguments, stream_name(runs[-1].stream))}` lists them")
    if any(run.damage for run in runs):
        output.note("steptrail: `steptrail doctor` says what is damaged")


def _next_page(arguments: argparse.Namespace, after: str) -> str:
    """Return the command that lists what comes after a place, with the filters of this page."""
    words: list[str] = []
    for name in (*_FILTERS, *VIEW_FILTERS):
        value: list[str] | str | datetime | None = getattr(arguments, name)
        given = value if isinstance(value, list) else [value]
        for each in given:
            if each is not None:
                words += valued(option_of(name), each.isoformat() if isinstance(each, datetime) else str(each))
    limit = () if arguments.limit == PAGE else ("--limit", str(arguments.limit))
    return typed(store_given(arguments), "runs", options=(*words, *limit, *valued("--after", after)))


def _status(run: RunSummary) -> str:
    errors = run.recorded_errors
    return f"{run.status.value} ({many(errors, 'error')})" if errors else run.status.value


def marks(run: RunSummary) -> list[str]:
    """Return what is wrong with a run, in words."""
    return [mark for mark, is_so in (("crashed", run.is_crashed), ("damaged", run.damage is not None)) if is_so]


def run_data(run: RunSummary) -> dict[str, JsonValue]:
    """Return a row as JSON."""
    return {
        "kind": run.kind,
        "sessionId": run.session_id,
        "agent": run.name,
        "status": run.status.value,
        "stopReason": run.stop_reason,
        "answered": run.answered,
        "recordedErrors": run.recorded_errors,
        "resolvedBy": run.resolved_by,
        "executions": run.executions,
        "steps": run.steps,
        "activeSeconds": run.active_seconds,
        "parentAgentId": run.parent.session if run.parent is not None else None,
        "cost": run.cost.to_dict() if run.cost is not None else None,
        "waitsFor": run.waits_for,
        "waitsUntil": None if run.waits_until is None else to_datetime(run.waits_until).isoformat(),
        "crashed": run.is_crashed,
        "damage": run.damage,
        "startedAt": to_datetime(run.started_at).isoformat(),
        "updatedAt": to_datetime(run.updated_at).isoformat(),
    }
