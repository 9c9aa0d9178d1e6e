"""What must hold of trees and forks that have ended, in each of their logs and between them.

- Nothing is open, due or asked, each execution has one end, and at each of its events a stream says why it is there.
- What was done outside is in the logs. What has ended is not begun again, and what is unsafe not without an end.
- Who lost a stream to another process stores nothing more in it than late reports of what was in flight.
- The index is what the logs come to. So are the rows of the read model, whole or in pieces, and its sums.
- What a run was told of those below it is what they say, and so are the bills.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from steptrail.domain.agent.events import ExecutionStarted, SessionForked
from steptrail.domain.flow.events import FlowRetried, FlowStarted
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.events import ExecutionFinished
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.usage import Usage
from steptrail.interfaces.cli.examination import examine
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.runs_view.view import RunsView
from tests.harness.projecting import entries, projected
from tests.harness.runs_view_audit import (
    agrees_with_the_agent,
    agrees_with_the_flow,
    fits_its_tables,
    is_the_sum_of_its_rows,
    refers_to_what_is_there,
)
from tests.harness.spans import hold_together, spans_of
from tests.properties.tree_effect_checks import (
    answers_of_streams,
    effects_are_once,
    external_calls_are_asked_and_answered_once,
    losers_store_no_more,
)
from tests.properties.tree_fork_checks import forks_hold
from tests.properties.tree_living import TreeLife


async def holds(life: TreeLife) -> None:
    """Check trees that have ended."""
    rows = await life.rows()
    logs = {stream: list(await life.watch.handle(stream).events()) for stream in rows}
    for stream, row in rows.items():
        assert not row.is_open, f"{stream} is left {row.standing}"
    assert not await life.watch.due()
    assert not await life.watch.inbox()
    for stream, records in logs.items():
        await _can_be_explained(life, stream)
        _ends_once(stream, records)
        hold_together(spans_of(stream, records))
    assert not (await examine(life.store)).findings
    await _rows_agree(life, logs)
    names = {id_of(stream) for stream in logs}
    begun = {effect: number for effect, number in life.world.begun.items() if effect.partition(":")[0] in names}
    effects_are_once(begun, logs)
    external_calls_are_asked_and_answered_once(life.world.answered, logs)
    await _files_can_be_read(life, logs)
    losers_store_no_more(life.processes.stored)
    _answers_are_those_of_streams_that_gave_them(rows, answers_of_streams(logs, are_late=life.was_cut))
    await _bills_add_up(life, rows)
    await forks_hold(life, logs)


async def _can_be_explained(life: TreeLife, stream: str) -> None:
    projections = PROJECTIONS.of(stream)
    assert projections is not None
    explainer = projections.explain(stream.partition(":")[2], None)
    for record in await life.handle(stream).history():
        explainer.add([record])
        for owned in (False, True):
            said = explainer.explanation(now=record.at, owned=owned)
            assert said.verdict, (stream, record.version)
            assert said.is_crashed is ("no process runs it" in said.verdict), (stream, record.version)
            assert not (owned and said.is_crashed), (stream, record.version)
            said.to_dict()


async def _files_can_be_read(life: TreeLife, logs: Mapping[str, Sequence[Recorded[Any]]]) -> None:
    for stream in logs:
        if stream.startswith("agent:"):
            session = life.watch.session(id_of(stream))
            for part in [part for message in (await session.state()).messages_so_far for part in message.files]:
                assert (await session.file(part.digest)).data is not None


def _ends_once(stream: str, records: Sequence[Recorded[Any]]) -> None:
    """Check that each execution has one end. An open one with which a fork goes on ends in the fork as well."""
    is_open = False
    for record in records:
        match record.event:
            case ExecutionStarted() | FlowStarted() | FlowRetried():
                assert not is_open, (stream, record.version)
                is_open = True
            case SessionForked(status=ExecutionStatus.PAUSED):
                is_open = True
            case ExecutionFinished():
                assert is_open, (stream, record.version)
                is_open = False
            case _:
                pass
    assert not is_open, stream


async def _rows_agree(life: TreeLife, logs: Mapping[str, Sequence[Recorded[Any]]]) -> None:
    """Check the rows of the read model, also those that are written in pieces, partly twice, with memories lost."""
    for stream, records in logs.items():
        kind, _, name = stream.partition(":")
        if stream not in life.roots[1:]:
            agrees = agrees_with_the_agent if kind == "agent" else agrees_with_the_flow
            agrees(name, records, projected(RunsView(), entries(stream, records)))
    stored = [(stream, record) async for _, stream, record in life.store.log()]
    log = [LogEntry(place, *each) for place, each in enumerate(stored, 1)]  # what was erased has left gaps
    tables = projected(RunsView(), log)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    is_the_sum_of_its_rows(tables, {(entry.stream, entry.record.version): entry.record.at for entry in log})
    lost = cycle([False, False, False, True])
    pieces = projected(
        RunsView(), log, batches=lambda: 7, goes_back=lambda place: min(place, 3), forgets=lambda _: next(lost)
    )
    assert pieces.whole() == tables.whole()


def _answers_are_those_of_streams_that_gave_them(rows: Mapping[str, RunSummary], told: Mapping[str, bool]) -> None:
    for row in rows.values():
        if row.parent is not None and row.parent.effect in told:
            gave = row.answered if row.kind == "agent" else row.status is ExecutionStatus.COMPLETED
            assert told[row.parent.effect] is gave, f"{row.stream} has ended as {row.status}, {row.stop_reason}"


async def _bills_add_up(life: TreeLife, rows: Mapping[str, RunSummary]) -> None:
    shared = {fork.stream: fork.shared.total_usage for fork in life.forks}
    # What was billed below a process that died, or lost its run, is told above when somebody goes on with it.
    for root in life.roots:
        for _, each in (await life.watch.tree(root)).walk() if root in rows else ():
            state = await life.handle(each.run.stream).state()
            told = (state.total_usage if each.run.kind == "agent" else state.usage) - shared.get(
                each.run.stream, Usage()
            )
            is_told = told.total <= each.usage.total if life.was_cut else told == each.usage
            assert is_told, f"{each.run.stream} was told {told}, and the tree has {each.usage}"


async def endings(life: TreeLife) -> dict[str, object]:
    """Return how each stream of the tree ended, and what was done outside for it. Its forks are left out."""
    streams = [each.run.stream for _, each in (await life.watch.tree(life.root)).walk()]
    names = {id_of(stream) for stream in streams}
    done = [effect for effect in life.world.done if effect.partition(":")[0] in names]
    return {stream: await ending(life, stream) for stream in streams} | dict.fromkeys(done)


async def ending(life: TreeLife, stream: str) -> object:
    """Return how a stream ended, whenever a person answered in it."""
    state: Any = await life.handle(stream).state()
    output: JsonValue = state.output
    if isinstance(output, dict):
        output = {**output, "at": None}
    return state.status, state.stop_reason, state.fold.executions, output
