"""`due`: what can go on, why, and the command for it. It only reads."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from steptrail.domain.errors import stream_name
from steptrail.domain.instants import seconds_between, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.due import DueCause
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.going_on import GivenWords, store_given, typed
from steptrail.interfaces.cli.kinds import SHOWN
from steptrail.interfaces.cli.listing import PAGE, marks, run_data
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, amount
from steptrail.interfaces.python.lists import states_of
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import lasting

_SAID = {
    DueCause.CRASHED: "crashed",
    DueCause.TIMER: "timer over",
    DueCause.ANSWERED: "answered",
    DueCause.STARTED: "handed to a worker",
    DueCause.CANCELLED: "its caller was cancelled",
    DueCause.SAID: "something was said to it",
}


def register(commands: Commands) -> None:
    """Add the command."""
    due = commands.add("due", _due, "List the sessions that `resume` would bring on now, why, and with which command.")
    due.add_argument("--limit", type=amount, metavar="N", default=PAGE, help=f"at most N sessions ({PAGE})")


def _due(arguments: argparse.Namespace, output: Output) -> None:
    async def listed(trail: Steptrail) -> tuple[Sequence[RunSummary], Mapping[str, Any]]:
        runs = await trail.due(limit=arguments.limit + 1)
        return runs, await states_of(trail.store, runs[: arguments.limit])

    found, states = in_store(arguments, listed)
    runs = found[: arguments.limit]
    store, now = store_given(arguments), time.time_ns() // 1000
    rows = [(run, _worker(run, states), _command(run, states, store)) for run in runs]
    if output.as_json:
        output.data([_data(run, worker, command) for run, worker, command in rows])
        return
    cells = [
        [stream_name(run.stream), run.name, ", ".join([run.status.value, *marks(run)]), _why(run, worker, now), command]
        for run, worker, command in rows
    ]
    output.table(["ID", "AGENT", "STATUS", "DUE BECAUSE", "COMMAND"], cells)
    if len(runs) < len(found):
        output.note(f"steptrail: these are {len(runs)}, and there are more: `--limit` shows them")


def _data(run: RunSummary, worker: str | None, command: str) -> dict[str, JsonValue]:
    due = run.due
    return {
        **run_data(run),
        "dueBecause": None if due is None else due.cause.value,
        "dueSince": None if due is None or due.since is None else to_datetime(due.since).isoformat(),
        "dueStream": None if due is None else due.stream,
        "crashedOn": worker,
        "next": command,
    }


def _why(run: RunSummary, worker: str | None, now: int) -> str:
    if (due := run.due) is None:
        return ""
    if due.stream is not None:
        return f"{stream_name(due.stream)} does not rest any more"
    on = f" on {worker}" if worker else ""
    ago = f" {lasting(seconds_between(due.since, now))} ago" if due.since is not None else ""
    return f"{_SAID[due.cause]}{on}{ago}"


def _worker(run: RunSummary, states: Mapping[str, Any]) -> str | None:
    """Return the process that ran a crashed run last; None for another one, and where it cannot be read."""
    state = states.get(run.stream)
    return state.fold.worker or None if run.is_crashed and state is not None else None


def _command(run: RunSummary, states: Mapping[str, Any], store: str | None) -> str:
    shown, state = SHOWN.of(run.stream), states.get(run.stream)
    code, *options = ("AGENT",) if shown is None or state is None else shown.code_of(state, GivenWords())
    return typed(store, "resume", code, stream_name(run.stream), options=options)
