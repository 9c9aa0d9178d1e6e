"""`erase`, `retain`, `unarchive`: remove sessions for good, by their age into an archive, and read that again."""

import argparse
import asyncio

from steptrail.domain.errors import stream_name
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.erasure import Erasure, ErasureReport
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.interfaces.cli.asking import in_store
from steptrail.interfaces.cli.exits import Exit, Refusal
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, a_path, age, amount, named, prefix, store_of, who
from steptrail.interfaces.python.archive import ArchiveFile, unarchived
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.rendering import many


def register(commands: Commands) -> None:
    """Add the commands."""
    erase = commands.add("erase", _erase, "Erase session ID for good. What stays is who did it, when and why.")
    erase.add_argument("id", metavar="ID", type=prefix, nargs="?", help="the whole id, not the beginning of one")
    erase.add_argument("--by", type=who, help="who erases, for the record")
    erase.add_argument("--reason", help="why, for the record")
    erase.add_argument("--cascade", action="store_true", help="erase the sessions below it and its forks too")
    erase.add_argument("--dry-run", action="store_true", help="only say what would be erased")
    erase.add_argument("--finish", action="store_true", help="without ID: remove what remains in the store's files")

    retain = commands.add("retain", _retain, "List the sessions that ended long ago, and erase them with --yes.")
    retain.add_argument("--older-than", metavar="AGE", type=age, required=True, help="ago: 90d, 12h, 30min or 2w")
    retain.add_argument("--status", choices=[status.value for status in ExecutionStatus if status.is_over])
    retain.add_argument("--agent", metavar="NAME", help="sessions of this agent")
    retain.add_argument("--limit", type=amount, metavar="N", help="at most about N sessions")
    retain.add_argument("--by", type=who, default="retention", help="who erases, for the record (default: retention)")
    retain.add_argument("--reason", help="why, for the record (default: the age)")
    retain.add_argument("--dry-run", action="store_true", help="only say what would be erased: so it is without --yes")
    retain.add_argument(
        "--archive", metavar="DIR", type=a_path, help="first write each to a file in DIR, and prove that"
    )
    retain.add_argument("--yes", action="store_true", help="erase them")

    unarchive = commands.add("unarchive", _unarchive, "Put sessions that `retain --archive` wrote into another store.")
    unarchive.add_argument("files", metavar="FILE", type=a_path, nargs="+")
    unarchive.add_argument(
        "--check", action="store_true", help="only prove them, also against the store they come from"
    )


_UNSEEN = "nobody has looked, since this ended early: `steptrail erase --finish` removes them"


def _erase(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.finish:
        if arguments.id is not None:
            raise Refusal("--finish is about what was erased before: leave out the ID")
        if arguments.dry_run:
            raise Refusal("--finish removes what remains, and --dry-run does nothing: give one of them")
        remains = in_store(arguments, lambda trail: trail.finish_erasing(), read_only=False)
        return _tell(ErasureReport(remains=remains), output, is_finished=True)
    if arguments.id is None or arguments.by is None or arguments.reason is None:
        raise Refusal("erase needs the ID of a session, --by and --reason (see `steptrail erase --help`)")
    said = named(arguments, "by", "reason", "cascade", "dry_run")
    report = in_store(arguments, lambda trail: trail.erase(arguments.id, **said), read_only=arguments.dry_run)
    _tell(report, output)


def _retain(arguments: argparse.Namespace, output: Output) -> None:
    dry_run = not arguments.yes
    if arguments.yes and arguments.dry_run:
        raise Refusal("--yes erases and --dry-run does not: give one of them")

    erased: list[Erasure] = []
    said = named(arguments, "older_than", "status", "agent", "limit", "by", "reason", "archive")
    said |= {"dry_run": dry_run, "on_erased": erased.append}
    try:
        report = in_store(arguments, lambda trail: trail.retain(**said), read_only=dry_run)
    except BaseException:
        if erased:
            _tell(ErasureReport(erased=tuple(erased), remains=_UNSEEN), output)
        raise
    _tell(report, output)


def _unarchive(arguments: argparse.Namespace, output: Output) -> int:
    # Each file is proved before the first is stored, and held only while that lasts: an archive may not fit in memory.
    proved = [ArchiveFile.proved(path) for path in arguments.files]

    async def checked(trail: Steptrail) -> list[str]:
        return [await _proof(trail, each) for each in proved]

    async def stored() -> list[str]:
        async with Steptrail.open(store_of(arguments)) as trail:
            await unarchived(trail, proved)
            return ["stored" for _ in proved]

    found = in_store(arguments, checked) if arguments.check else asyncio.run(stored())
    if output.as_json:
        listed: list[JsonValue] = [
            {"id": stream_name(each.stream), "events": each.events, "digest": each.digest.hex(), "is": what}
            for each, what in zip(proved, found, strict=True)
        ]
        output.data(listed)
    else:
        rows = [[what, stream_name(each.stream), str(each.events)] for each, what in zip(proved, found, strict=True)]
        output.table(["", "ID", "EVENTS"], rows)
    return Exit.FAILED if "another" in found else Exit.OK


async def _proof(trail: Steptrail, proved: ArchiveFile) -> str:
    """Return what the store that is asked says of an archived session that holds what its own digest says."""
    erasure = await trail.erasure(stream_name(proved.stream))
    if erasure is None:
        return "whole"
    return "as erased" if erasure.digest == proved.digest.hex() else "another"


def _tell(report: ErasureReport, output: Output, *, is_finished: bool = False) -> None:
    if output.as_json:
        output.data(_report_data(report))
        return
    rows = [
        *[
            ["would erase" if report.is_dry_run else "erased", stream_name(e.stream), str(e.events)]
            for e in report.erased
        ],
        *[["kept", stream_name(stream), why] for stream, why in report.kept],
    ]
    if rows:
        output.table(["", "ID", "EVENTS"], rows)
        output.line()
    what = many(len(report.erased), "session")
    if report.is_dry_run:
        output.line(f"{what} would be erased; nothing was done")
        return
    if not is_finished:
        output.line(f"{what} erased")
        if not report.erased:  # nobody has looked then what remains of others
            return
    output.line(f"bytes remain: {report.remains}" if report.remains else "no bytes of erased sessions remain")


def _report_data(report: ErasureReport) -> dict[str, JsonValue]:
    return {
        "erased": [{"id": stream_name(each.stream), "events": each.events} for each in report.erased],
        "kept": [{"id": stream_name(stream), "why": why} for stream, why in report.kept],
        "dryRun": report.is_dry_run,
        "remains": report.remains,
    }
