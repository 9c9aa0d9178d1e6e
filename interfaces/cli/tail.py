"""`tail`: the events of one session or of all, as they are stored."""

import argparse
import asyncio
from functools import partial

from steptrail.domain.errors import CorruptRecord, stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.erasure import Erased
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.kinds import summary_of
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, count, prefix
from steptrail.interfaces.cli.summaries import clock_time, record_data
from steptrail.interfaces.python.trail import Steptrail


def register(commands: Commands) -> None:
    """Add the command."""
    tail = commands.add("tail", _tail, "Print the events of session ID, or of all sessions, oldest first.")
    tail.add_argument("id", metavar="ID", type=prefix, nargs="?")
    tail.add_argument(
        "--after",
        type=count,
        default=0,
        metavar="N",
        help="begin after event N: its number in the session, without ID its place in the store; both stand first",
    )
    tail.add_argument("--follow", "-f", action="store_true", help="go on with what comes, until Ctrl-C")


def _tail(arguments: argparse.Namespace, output: Output) -> None:
    try:
        in_store(arguments, partial(_tailed, arguments, output))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not arguments.follow:
            raise


async def _tailed(arguments: argparse.Namespace, output: Output, trail: Steptrail) -> None:
    after: int = arguments.after

    def note(error: CorruptRecord) -> None:
        output.note(f"steptrail: {one_line(str(error))}")

    session = None if arguments.id is None else stream_name((await trail.find_any(arguments.id)).stream_id)
    if session is not None:
        await trail.check_not_erased(session)
    begin = after if session is None else 0
    # What is wrong with one session keeps nobody from seeing the others; of itself it shows no more than was right.
    leave_out = note if session is None else None
    following = trail.subscribe(begin, session=session, follow=arguments.follow, on_corrupt=leave_out)
    async with following as entries:
        async for entry in entries:
            number = entry.position if session is None else entry.record.version
            if number > after:
                _print(output, number, entry)
            if session is not None and isinstance(entry.record.event, Erased):
                await trail.check_not_erased(session)  # nothing comes after this
            if output.is_gone:
                return


def _print(output: Output, number: int, entry: LogEntry) -> None:
    record, who = entry.record, "sessionId" if entry.kind == "agent" else "stream"
    name = stream_name(entry.stream)
    place: dict[str, JsonValue] = {"position": entry.position, who: name}
    head = f"{number}  {clock_time(record.at)}  {name}  {record.event.TYPE}"
    try:
        if output.as_json:
            output.data({**place, **record_data(record)}, indent=False)
        else:
            output.line(f"{head}  {summary_of(entry.stream, record.event)}".rstrip())
    except (TypeError, ValueError, RecursionError) as error:
        # What cannot be shown of one event keeps nobody from seeing the others.
        why, what = f"{type(error).__name__}: {error}", {"version": record.version, "type": record.event.TYPE}
        output.answer({**place, **what, "unreadable": why}, f"{head}  cannot be shown: {why}", indent=False)
