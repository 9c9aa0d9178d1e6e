"""`doctor`: a table of what was checked, and one of what was found."""

import argparse
import asyncio
from collections.abc import Sequence

from steptrail.domain.errors import StoreDamaged, StoreError
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.store.sqlite.version import known_fault
from steptrail.interfaces.cli.examination import examine
from steptrail.interfaces.cli.exits import Exit
from steptrail.interfaces.cli.findings import CHECKS, Examination, Finding
from steptrail.interfaces.cli.output import Output
from steptrail.interfaces.cli.parser import Commands, projection_option, store_of
from steptrail.runtime.kernel.ports import EventStore

_EXITS = "Exit codes: 0 healthy, 1 damaged, 2 no store, 7 locked, full or away."


def register(commands: Commands) -> None:
    """Add the command."""
    doctor = commands.add("doctor", _doctor, "Check every session of the store.", exits=_EXITS)
    doctor.add_argument("--reindex", action="store_true", help="mend lists that differ from the events")
    doctor.add_argument(
        "--no-views",
        action="store_true",
        help="leave out the read models: comparing them reads the log once more, and needs as much room as they do",
    )
    projection_option(doctor)


def _doctor(arguments: argparse.Namespace, output: Output) -> int:
    try:
        seen = asyncio.run(_examined(store_of(arguments), arguments))
    except StoreDamaged as error:
        # So broken that no session can be listed: that is what was asked for, and the answer.
        seen = Examination()
        seen.add(Finding("store", "", str(error)))
    if output.as_json:
        output.data(
            {
                "healthy": seen.is_healthy,
                "sessions": seen.streams,
                "events": seen.events,
                "findings": [_finding_data(finding) for finding in seen.findings],
            }
        )
    else:
        _print(output, seen)
    return Exit.OK if seen.is_healthy else Exit.FAILED


async def _examined(url: str, arguments: argparse.Namespace) -> Examination:
    store = open_store(url, create=False, read_only=not arguments.reindex)
    try:
        seen = await examine(store)
        if arguments.reindex and seen.unlisted:
            for row in seen.unlisted:
                await store.list_anew(row)
            seen = await examine(store)
        if not arguments.no_views:
            await _examine_views(store, seen, arguments.projection)
        if url.startswith("sqlite") and (fault := known_fault()) is not None:
            seen.add(Finding("sqlite", "", fault, is_damage=False))
        return seen
    finally:
        await store.close()


async def _examine_views(store: EventStore, seen: Examination, projections: Sequence[str]) -> None:
    """Compare the read models with the log. That they cannot be compared says nothing of the store."""
    # No other command needs them all.
    from steptrail.interfaces.python.loading_projections import load_projections
    from steptrail.interfaces.python.views_of_runs import own_projections, views_of_runs

    own = own_projections(load_projections(projections))
    try:
        views = views_of_runs(store, own)
        try:
            for fault in await views.verify():
                seen.add(Finding("views", "", fault.what, is_damage=fault.is_damage))
        finally:
            await views.close()
    except StoreError as error:
        seen.add(Finding("views", "", f"the read models cannot be compared: {error}", is_damage=False))


def _print(output: Output, seen: Examination) -> None:
    found = {check: [finding for finding in seen.findings if finding.check == check] for check in CHECKS}
    rows = [[check, *_counts(found[check])] for check in CHECKS]
    output.table(["CHECK", "DAMAGE", "ATTENTION"], rows)
    if seen.findings:
        output.line()
        details = [
            [
                "damage" if finding.is_damage else "attention",
                finding.check,
                finding.stream,
                "" if finding.position is None else str(finding.position),
                finding.type_name or "",
                finding.what,
            ]
            for finding in seen.findings
        ]
        output.table(["", "CHECK", "SESSION", "POSITION", "TYPE", "WHAT"], details)
    output.line()
    verdict = "healthy" if seen.is_healthy else "damaged"
    output.line(f"{seen.streams} sessions, {seen.events} events: {verdict}")


def _counts(findings: list[Finding]) -> list[str]:
    damage = sum(finding.is_damage for finding in findings)
    return [str(damage), str(len(findings) - damage)]


def _finding_data(finding: Finding) -> dict[str, JsonValue]:
    return {
        "check": finding.check,
        "stream": finding.stream,
        "position": finding.position,
        "type": finding.type_name,
        "what": finding.what,
        "damage": finding.is_damage,
    }
