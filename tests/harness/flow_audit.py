"""What a crash may not do to a workflow, counted: the logs of a killed run and of those below it, held against its
ledger and an undisturbed run.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from steptrail.domain.agent.events import AgentEvent, ToolExecutionStarted
from steptrail.domain.flow.events import (
    ExecutionFinished,
    FlowEvent,
    HumanAnswered,
    HumanRequested,
    NodeAttemptCompleted,
    NodeAttemptInterrupted,
    NodeAttemptStarted,
    NodeCompleted,
    NodeFailed,
    NodeFailureRecorded,
    NodeOpened,
    NodeRetryScheduled,
)
from steptrail.domain.flow.ids import flow_stream
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.faults import Reach, no_faults
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.kinds import KINDS
from steptrail.testing.crash import LedgerEntry, repeated
from tests.harness.crash_audit import Finding, lost, repeats, untrue
from tests.harness.crash_workload import Ending
from tests.harness.flow_workload import FlowVariant, FlowWorkload, perform_flow
from tests.harness.store_urls import TestedStore, opened
from tests.harness.stored_events import stored_events

_LOOK_SECONDS = 0.01
_LONGEST_LEASE_SECONDS = 60.0
_CONCLUDED = (
    NodeOpened,
    NodeCompleted,
    NodeFailed,
    NodeFailureRecorded,
    HumanRequested,
    HumanAnswered,
    ExecutionFinished,
)
_STARTS = (NodeAttemptStarted, ToolExecutionStarted)


@dataclass(frozen=True, slots=True)
class FlowLog:
    """A run of a workflow as a process reads it that had no part in it, and the streams below it by their names.

    `is_whole`: in none of them there is a gap, every digest verifies, and the index says of each what its events say.
    """

    records: Sequence[Recorded[FlowEvent]]
    below: Mapping[str, Sequence[Recorded[Any]]]
    variables: Mapping[str, JsonValue]
    is_whole: bool


class FlowWhole(NamedTuple):
    """A run that nobody killed."""

    workload: FlowWorkload
    log: FlowLog
    ending: Ending


async def undisturbed_flow(url: str, folder: Path, variant: FlowVariant, reach: Reach = no_faults) -> FlowWhole:
    """Run a workload in this process, and kill nobody."""
    workload = FlowWorkload.new(url, folder, variant)
    ending = await perform_flow(workload, reach)
    return FlowWhole(workload, await read_flow(url, workload.session), ending)


async def read_flow(url: str, session: str) -> FlowLog:
    """Read a run and those below it as soon as nobody holds them; one that is not there is empty.

    Raises `TimeoutError` when somebody holds one of them for ever.
    """
    store, stream = opened(url), flow_stream(session)
    async with Steptrail(Environment(store=store)) as trail:
        streams = [stream, *(row.stream for row in await store.index(IndexQuery(parents=[stream])))]
        async with asyncio.timeout(_LONGEST_LEASE_SECONDS):
            for each in streams:
                while await store.is_leased(each):
                    await asyncio.sleep(_LOOK_SECONDS)
        whole = [await _is_whole(store, each) for each in streams]
        below = {each: (await store.read(each)).records for each in streams[1:]}
        records = await stored_events(trail.flow(session))
        envelope = (await trail.flow(session).result()).envelope if records else None
    variables = {} if envelope is None else {name: _timeless(value) for name, value in envelope.vars.items()}
    return FlowLog(records, below, variables, all(whole))


def _timeless(value: JsonValue) -> JsonValue:
    """Return a value without the instant of an answer."""
    return {name: each for name, each in value.items() if name != "at"} if isinstance(value, dict) else value


async def _is_whole(store: TestedStore, stream: str) -> bool:
    kind = KINDS.of(stream)
    assert kind is not None
    records, fault = (await store.read(stream)).records, await store.verify(stream)
    state, _ = await fold_stream(kind.machine, store, stream)
    row, listed = kind.machine.control.summary(state), await store.index(IndexQuery(streams=[stream]))
    is_listed = not listed[0].differences(row) if listed else not records
    return fault is None and is_listed and [record.version for record in records] == list(range(1, len(records) + 1))


def audit_flow(
    workload: FlowWorkload, killed: Sequence[FlowLog], after: FlowLog, ending: Ending, whole: FlowWhole
) -> Finding:
    """Judge a run by its logs after each kill and at its end, its ledger, and the run `whole` that nobody killed."""
    entries = workload.ledger.entries()
    effect, on_unknown = workload.variant.effect, workload.variant.on_unknown
    started = {
        event.effect_id for event in _events(after) if isinstance(event, NodeAttemptStarted | ToolExecutionStarted)
    }
    unknown = [entry for entry in entries if entry.what == "done" and entry.effect not in started]
    gone = [(log.below[name], after.below.get(name, ())) for log in killed for name in log.below]
    return Finding(
        events_lost=lost([log.records for log in killed], after.records)
        + sum(lost([before], now) for before, now in gone)
        + untrue(entries, after.records),
        tools_repeated=_repeated(entries, after),
        keyed_without_id=len(unknown) if effect is ToolEffect.KEYED else 0,
        unsafe_repeated=repeats(entries, on_unknown) if effect is ToolEffect.UNSAFE else 0,
        log_is_whole=after.is_whole,
        same_outcome=ending == whole.ending and _is_same(workload.variant, after, whole.log),
    )


def _events(log: FlowLog) -> list[Any]:
    return [record.event for records in (log.records, *log.below.values()) for record in records]


def _repeated(entries: Sequence[LedgerEntry], log: FlowLog) -> int:
    """Count what ran again although the log knew its end, and questions and streams that were begun twice."""
    again = sum(_starts_after_the_end([record.event for record in records]) for records in _of_flows(log))
    of_agents: list[Recorded[AgentEvent]] = [
        record for name, records in log.below.items() if name.startswith("agent:") for record in records
    ]
    asked = Counter(event.node for event in _events(log) if isinstance(event, HumanRequested))
    begun = Counter(
        event.effect_id for event in _events(log) if isinstance(event, NodeAttemptStarted | ToolExecutionStarted)
    )
    done = Counter(entry.effect for entry in entries if entry.what == "done")
    more = sum(max(0, times - begun[effect]) for effect, times in done.items() if effect in begun)
    twice = sum(times - 1 for times in asked.values()) + max(0, len(log.below) - 1)
    return again + len(repeated(entries, of_agents)) + more + twice


def _of_flows(log: FlowLog) -> list[Sequence[Recorded[Any]]]:
    return [log.records, *(records for name, records in log.below.items() if name.startswith("flow:"))]


def _starts_after_the_end(events: Sequence[Any]) -> int:
    ended: set[tuple[str, int, int | None]] = set()
    again = 0
    for event in events:
        if isinstance(event, NodeAttemptCompleted):
            ended.add((event.node, event.visit, event.item))
        elif isinstance(event, NodeAttemptStarted | NodeRetryScheduled):
            again += (event.node, event.visit, event.item) in ended
    return again


def _is_same(variant: FlowVariant, after: FlowLog, expected: FlowLog) -> bool:
    unknown = {event.node for event in _events(after) if isinstance(event, NodeAttemptInterrupted)} - {"begin", "end"}
    if unknown and variant.effect is ToolEffect.UNSAFE and variant.on_unknown is OnUnknown.FAIL:
        # What stayed unknown was recorded as a failure, and the run went on without it.
        return unknown == {event.node for event in _events(after) if isinstance(event, NodeFailureRecorded)}
    return after.variables == expected.variables and _concluded(after) == _concluded(expected)


def _concluded(log: FlowLog) -> Counter[tuple[object, ...]]:
    """Count what was concluded of each visit, and how often; side by side it comes in any order."""
    kept = [event for event in _events(log) if isinstance(event, _CONCLUDED)]
    return Counter((event.TYPE, getattr(event, "node", None), getattr(event, "visit", None)) for event in kept)
