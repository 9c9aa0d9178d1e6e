"""What must hold of a tree of agents and workflows that has ended, in each of its logs and between them."""

from collections import Counter
from typing import Any

from steptrail.domain.agent.events import ToolExecutionCompleted, ToolExecutionFailed, ToolExecutionStarted
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.flow.events import NodeAttemptCompleted, NodeAttemptFailed, NodeAttemptStarted
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.projections.kinds import PROJECTIONS
from steptrail.projections.runs_view.view import RunsView
from tests.harness.projecting import entries, joined_log, projected
from tests.harness.runs_view_audit import (
    agrees_with_the_agent,
    agrees_with_the_flow,
    fits_its_tables,
    is_the_sum_of_its_rows,
    refers_to_what_is_there,
)
from tests.harness.spans import hold_together, spans_of
from tests.properties.tree_living import TreeLife

__all__ = ["endings", "holds"]


async def holds(life: TreeLife) -> None:
    """Check a tree that has ended."""
    rows = {row.stream: row for row in await life.watch.runs(limit=500)}
    logs = {stream: list(await life.watch.handle(stream).events()) for stream in rows}
    for stream, row in rows.items():
        assert not row.is_open, f"{stream} is left {row.standing}"
    assert not await life.watch.due()
    assert not await life.watch.inbox()
    for stream, records in logs.items():
        _can_be_explained(stream, records)
        _rows_agree(stream, records)
        hold_together(spans_of(stream, records))
    log = joined_log(logs)
    tables = projected(RunsView(), log)
    fits_its_tables(tables)
    refers_to_what_is_there(tables)
    is_the_sum_of_its_rows(tables, {(entry.stream, entry.record.version): entry.record.at for entry in log})
    _effects_are_once(life, logs)
    _answers_are_those_of_streams_that_gave_them(rows, logs)
    await _bills_add_up(life, logs)


def _can_be_explained(stream: str, records: list[Recorded[Any]]) -> None:
    projections = PROJECTIONS.of(stream)
    assert projections is not None
    explainer = projections.explain(stream.partition(":")[2], None)
    for record in records:
        explainer.add([record])
        for owned in (False, True):
            said = explainer.explanation(now=record.at, owned=owned)
            assert said.verdict, (stream, record.version)
            assert said.waits_for is None or not said.is_crashed, (stream, record.version)
            said.to_dict()


def _rows_agree(stream: str, records: list[Recorded[Any]]) -> None:
    kind, _, name = stream.partition(":")
    agrees = agrees_with_the_agent if kind == "agent" else agrees_with_the_flow
    agrees(name, records, projected(RunsView(), entries(stream, records)))


def _effects_are_once(life: TreeLife, logs: dict[str, list[Recorded[Any]]]) -> None:
    """Check that what was done outside is what the logs tell, and that nothing was begun again that had ended."""
    starts, ended = Counter[str](), Counter[str]()
    for stream, records in logs.items():
        at = dict[Any, str]()
        is_done = set[str]()
        for record in records:
            match record.event:
                case ToolExecutionStarted() as event:
                    assert event.effect_id not in is_done, (stream, record.version)
                    at[event.position] = event.effect_id
                    starts[event.effect_id] += 1
                case NodeAttemptStarted() as event:
                    assert event.effect_id not in is_done, (stream, record.version)
                    at[event.node, event.visit, event.item] = event.effect_id
                    starts[event.effect_id] += 1
                case ToolExecutionCompleted() as event if event.position in at:
                    is_done.add(at[event.position])
                    ended[at[event.position]] += event.settled_by is None
                case NodeAttemptCompleted() as event if (event.node, event.visit, event.item) in at:
                    is_done.add(at[event.node, event.visit, event.item])
                    ended[at[event.node, event.visit, event.item]] += event.settled_by is None
                case _:
                    pass
    for effect, begun in life.world.begun.items():
        assert begun <= starts[effect], f"{effect} was begun {begun} times, and {starts[effect]} times by the log"
    for effect, number in ended.items():
        assert number <= 1, effect


def _answers_are_those_of_streams_that_gave_them(
    rows: dict[str, RunSummary], logs: dict[str, list[Recorded[Any]]]
) -> None:
    answers = dict[str, bool]()
    for records in logs.values():
        at = dict[Any, str | None]()
        for event in (record.event for record in records):
            match event:
                case ToolExecutionStarted():
                    at[event.position] = event.effect_id
                case NodeAttemptStarted():
                    at[event.node, event.visit, event.item] = event.stream_effect
                case ToolExecutionCompleted(settled_by=None) | ToolExecutionFailed():
                    if (effect := at.get(event.position)) is not None:
                        answers[effect] = isinstance(event, ToolExecutionCompleted)
                case NodeAttemptCompleted(settled_by=None) | NodeAttemptFailed():
                    if (effect := at.get((event.node, event.visit, event.item))) is not None:
                        answers[effect] = isinstance(event, NodeAttemptCompleted)
                case _:
                    pass
    for row in rows.values():
        if row.parent is not None and row.parent.effect in answers:
            gave = row.answered if row.kind == "agent" else row.status is ExecutionStatus.COMPLETED
            assert answers[row.parent.effect] is gave, f"{row.stream} has ended as {row.status}, {row.stop_reason}"


async def _bills_add_up(life: TreeLife, logs: dict[str, list[Recorded[Any]]]) -> None:
    tree = await life.watch.tree(life.root)
    crashed = any(trouble.what.startswith("crash") for trouble in life.came)
    for _, each in tree.walk():
        stream = each.run.stream
        if each.run.kind == "agent":
            state = AGENT.evolve_all(AGENT.initial(stream), logs[stream])
            told = state.fold.usage
        else:
            told = FLOW.evolve_all(FLOW.initial(stream), logs[stream]).usage
        # What was billed below a process that died is told above when somebody goes on with it, and else never.
        is_told = told.total <= each.usage.total if crashed else told == each.usage
        assert is_told, f"{stream} was told {told}, and the tree has {each.usage}"


async def endings(life: TreeLife) -> dict[str, object]:
    """Return how each stream of a tree ended, and what was done outside."""
    told: dict[str, object] = {}
    for row in await life.watch.runs(limit=500):
        state: Any = await life.watch.handle(row.stream).state()
        told[row.stream] = (row.status, row.stop_reason, row.executions, state.output)
    return told | dict.fromkeys(life.world.done)
