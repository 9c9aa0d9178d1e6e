"""`tail`: the events of one session or of all, as they are stored."""

import argparse
import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from steptrail.domain.agent.ids import SessionId, session_of, stream_of
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.event import Event
from steptrail.domain.record import Recorded
from steptrail.infrastructure.trail import Steptrail
from steptrail.interfaces.cli.exits import Exit
from steptrail.interfaces.cli.output import Output, one_line
from steptrail.interfaces.cli.parser import Commands, count, prefix, store_of
from steptrail.interfaces.cli.summaries import clock_time, record_data, summary
from steptrail.runtime.ports import EventStore

__all__ = ["register"]

_POLL_SECONDS = 0.2
_PAGE = 1_000

Entry = tuple[int, str, Recorded[Event]]
"""The number that `--after` takes, the stream, and the record."""

OnCorrupt = Callable[[CorruptRecord], None]


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


def _tail(arguments: argparse.Namespace, output: Output) -> int:
    try:
        asyncio.run(_tailed(arguments, output))
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not arguments.follow:
            raise
    return Exit.OK


async def _tailed(arguments: argparse.Namespace, output: Output) -> None:
    task = asyncio.current_task()
    with suppress(NotImplementedError):  # Windows ends a process without asking
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Steptrail.open(store_of(arguments), create=False, read_only=True) as trail:
        stream = None
        if arguments.id is not None:
            stream = stream_of(SessionId((await trail.find(arguments.id)).agent_id))
        after: int = arguments.after
        noted: set[str] = set()

        def note(error: CorruptRecord) -> None:
            # What cannot be read is met again at each look behind the last event that can.
            if (why := one_line(str(error))) not in noted:
                noted.add(why)
                output.note(f"steptrail: {why}")

        while True:
            async for number, name, record in _entries(trail.store, stream, after, note):
                _print(output, number, name, record)
                after = number
                if output.is_gone:
                    return
            if not arguments.follow:
                return
            await asyncio.sleep(_POLL_SECONDS)


async def _entries(store: EventStore, stream: str | None, after: int, note: OnCorrupt) -> AsyncIterator[Entry]:
    if stream is None:
        # What is wrong with one session keeps nobody from seeing the others.
        async for entry in store.log(after=after, on_corrupt=note):
            yield entry
        return
    while await store.version(stream) > after:
        records = (await store.read(stream, after=after, limit=_PAGE)).records
        for record in records:
            yield record.version, stream, record
        if not records:  # a damaged index
            return
        after = records[-1].version


def _print(output: Output, number: int, stream: str, record: Recorded[Event]) -> None:
    session = session_of(stream)
    if output.as_json:
        output.data({"position": number, "agentId": session, **record_data(record)}, indent=False)
        return
    output.line(f"{number}  {clock_time(record.at)}  {session}  {record.event.TYPE}  {summary(record.event)}".rstrip())
