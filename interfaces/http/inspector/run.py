"""One run as its page shows it: read in parts of known size, never the whole log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from steptrail.domain.agent.decide import why_no_fork
from steptrail.domain.agent.events import StepCompleted
from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.agent.state import AgentState
from steptrail.domain.errors import CorruptRecord
from steptrail.domain.flow.state import FlowState
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.access import Access
from steptrail.interfaces.http.inspector.bar_choice import ChosenBars, chosen_bars
from steptrail.interfaces.http.inspector.bars import drawn_rows
from steptrail.interfaces.http.inspector.events import Chunk, chunk_of, sound_events
from steptrail.interfaces.http.inspector.graph import graph_of
from steptrail.interfaces.http.inspector.lists import seen_run
from steptrail.interfaces.http.inspector.place import Place
from steptrail.interfaces.http.inspector.state import StateAt, state_at
from steptrail.interfaces.http.inspector.told import Told, told
from steptrail.interfaces.python.explaining import Explainers, explained
from steptrail.interfaces.python.trail import Steptrail
from steptrail.projections.decision_panel import DecisionPanel, decision_panel
from steptrail.projections.flow_layout import Layout
from steptrail.projections.masking import Masking
from steptrail.projections.run_explanation import RunExplanation
from steptrail.runtime.kernel.ports import EventStore

WINDOW: Final = 1_500
"""How many events bars are drawn of: some 200 steps."""
_VOTES: Final = 100
"""How far back the votes of a decision are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The events of which bars are drawn. `before` and `behind` are where the next windows end; None for none."""

    first: int
    last: int
    before: int | None
    behind: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """The contents of the page. `told` is None for a run that cannot be read; `damage` says why.

    `above` is the run that began it, and `fork_of` the session that it was forked from, if the caller may see it;
    `forked_at` says after how many events of that one. `fork_after` is the last event after which it can be forked
    itself; None where that cannot be told.
    """

    row: RunSummary
    told: Told | None
    damage: str | None
    chunk: Chunk
    bars: ChosenBars
    window: Window
    panel: DecisionPanel | None
    state: StateAt | None
    graph: Layout | None
    above: RunSummary | None
    fork_of: RunSummary | None
    forked_at: int | None
    fork_after: int | None


async def read_run(
    trail: Steptrail,
    access: Access,
    row: RunSummary,
    masking: Masking,
    *,
    store: str | None,
    asked: Place,
    explainers: Explainers,
) -> RunView:
    """Read what the page of a run shows.

    Raises `ConfigurationError` when there is no such execution.
    """
    head, damage, newest = None, None, None
    try:
        explanation = await explanation_of(trail, row, asked.execution, explainers)
        head = told(row.stream, explanation, masking, store)
        damage = explanation.damage
        newest = explanation.state
    except CorruptRecord as error:
        damage = str(error)
    count = await trail.store.version(row.stream)
    window, records = await _window(trail.store, row.stream, head, count, asked)
    now = trail.clock.utc() if window.behind is None else None
    state = None
    if asked.at is not None:
        state = await state_at(trail, row.stream, masking, asked.at, count, asked.since)
    return RunView(
        row=row,
        told=head,
        damage=damage,
        chunk=await chunk_of(trail.store, row.stream, masking, count=count, chosen=asked.event),
        bars=chosen_bars(drawn_rows(row.stream, records, now), asked.bars),
        window=window,
        panel=await _panel(trail.store, row.stream, head, asked),
        state=state,
        graph=await graph_of(trail, row.stream, count),
        above=None if row.parent is None else await seen_run(trail.store, access, row.parent.stream),
        fork_of=None if row.fork_of is None else await seen_run(trail.store, access, row.fork_of),
        forked_at=newest.forked_from.version if newest is not None and newest.forked_from is not None else None,
        fork_after=None if newest is None or head is None or damage is not None else _fork_after(newest, head, records),
    )


async def explanation_of(
    trail: Steptrail, row: RunSummary, execution: int | None, explainers: Explainers
) -> RunExplanation:
    """Return the explanation of an execution, None for the newest. Use it before anything else is awaited.

    Raises `ConfigurationError` when there is no such execution, and `CorruptRecord`.
    """
    now, is_newest = trail.clock.utc(), execution == row.executions
    found = await explained(
        trail.store, row.stream, now=now, execution=None if is_newest else execution, explainers=explainers
    )
    # By its number the newest is asked for as such, which is much quicker. Meanwhile another one may have begun.
    if is_newest and cast("RunExplanation", found).state.fold.executions != execution:
        found = await explained(trail.store, row.stream, now=now, execution=execution)
    return cast("RunExplanation", found)


async def _window(
    store: EventStore, stream: str, head: Told | None, count: int, asked: Place
) -> tuple[Window, Sequence[Recorded[Any]]]:
    """Return the window that is asked for, with its events: those of the execution, as far as they fit."""
    begin = head.explained.events.get("started", 1) if head is not None else 1
    end = end_of(head, begin, count) if head is not None else count
    last = min(max(asked.until or end, begin), end)
    first = max(begin, last - WINDOW + 1)
    records, _ = await sound_events(store, stream, first - 1, last + 1 - first)  # its end is told with the events
    return Window(
        first=first,
        last=last,
        before=first - 1 if first > begin else None,
        behind=min(end, last + WINDOW) if last < end else None,
    ), records


def end_of(head: Told, begin: int, count: int) -> int:
    """Return the last event of an execution that begins with `begin`, of `count` that its stream has.

    An execution that a fork shares with its source and that is not the newest has no event here but that of the fork.
    """
    end = head.explained.events.get("finished", count if head.explained.is_newest else begin)
    return end if end >= begin else count


async def _panel(store: EventStore, stream: str, head: Told | None, asked: Place) -> DecisionPanel | None:
    """Return the decision that is asked for, or the last one that is told of."""
    version = asked.decision or (head.explained.events.get("decision") if head is not None else None)
    if version is None or not stream.startswith(STREAM_PREFIX):
        return None
    after = max(0, version - _VOTES)
    records, _ = await sound_events(store, stream, after, version - after)
    return decision_panel(records, version)


def _fork_after(state: AgentState | FlowState, head: Told, records: Sequence[Recorded[Any]]) -> int | None:
    """Return the last event after which a run can be forked, of those that are shown and where it stands now."""
    if isinstance(state, FlowState):
        return state.run.forkable_at if head.explained.is_newest and state.run is not None else None
    if not head.explained.is_newest or why_no_fork(state) is None:
        return state.version if head.explained.is_newest else None
    ends = [record.version for record in records if isinstance(record.event, StepCompleted)]
    before = head.explained.events.get("started", 0) - 1 if state.fold.executions > 1 else 0
    return max([0, *ends, before]) or None
