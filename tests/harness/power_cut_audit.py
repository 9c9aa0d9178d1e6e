"""What became of a store in every state that a power cut may leave it in."""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, get_args

from steptrail.domain.agent.ids import STREAM_PREFIX
from steptrail.domain.errors import SteptrailError
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.testing.store_contract import Noted, commit_of
from tests.harness.power_cut import Op, State, build, record

DURABILITIES: Final[tuple[Durability, ...]] = get_args(Durability)

_NAME = "runs.db"

Digests = dict[tuple[str, int], bytes]


class Audit(NamedTuple):
    """How many states there were, and in how many of them what was wrong."""

    states: int = 0
    refused: int = 0
    damaged: int = 0
    lost: int = 0


def record_run(folder: Path, durability: Durability) -> list[Op]:
    """Return what a real run did to the files of its store."""
    folder.mkdir()
    program = [sys.executable, "-m", "tests.harness.power_cut_run", str(folder / _NAME), durability]
    return record(program, folder)


def making(ops: Sequence[Op]) -> list[Op]:
    """Return what was done before the first event could be stored: up to the log, and none of its frames."""
    return list(takewhile(lambda op: op.name != f"{_NAME}-wal" or op.kind == "create", ops))


def run_audit(whole: Path, states: Iterable[State], folder: Path) -> tuple[Audit, list[str]]:
    """Open each state, read all of it, and go on writing; return the counts, and a line about each that was wrong.

    `whole` is the store as the program left it. What was told is lost when it is not in a state that came later.
    """
    return asyncio.run(_audit(whole, states, folder))


async def _audit(whole: Path, states: Iterable[State], folder: Path) -> tuple[Audit, list[str]]:
    digests = await _digests(whole)
    counts, complaints = Audit(), list[str]()
    for number, state in enumerate(states, 1):
        build(state, folder)
        counts = counts._replace(states=number)
        try:
            store = open_store(f"sqlite:///{folder / _NAME}", durability="normal", busy_timeout=1)
            try:
                damage, lost = await _looked_at(store, state, digests)
            finally:
                await store.close()
        except SteptrailError as error:
            counts = counts._replace(refused=counts.refused + 1)
            complaints.append(f"state {number} is refused: {error}")
            continue
        if damage:
            counts = counts._replace(damaged=counts.damaged + 1)
            complaints.append(f"state {number} is damaged: {damage}")
        if lost:
            counts = counts._replace(lost=counts.lost + 1)
            complaints.append(f"state {number} lost {lost}, which had been told")
    return counts, complaints


async def _looked_at(store: RecorderEventStore, state: State, digests: Digests) -> tuple[str, str]:
    damage, ends = "", dict[str, int]()
    for stream in await store.all_streams():
        head = (await store.read(stream)).head
        ends[stream] = head.version
        if fault := await store.verify(stream):
            damage = f"{stream}: {fault}"
        elif digests.get((stream, head.version)) != head.digest:
            damage = f"{stream} ends at event {head.version} with what nobody wrote"
    if faults := [fault for fault in await store.blob_faults() if fault.is_damage]:
        damage = str(faults[0])
    await store.append("noted:after", EMPTY_STREAM, commit_of("after", Noted(text="goes on")))
    said = [line.split() for line in state.said]
    lost = [line for line in said if ends.get(STREAM_PREFIX + line[0], 0) < int(line[1])]
    return damage, " ".join(lost[0]) if lost else ""


async def _digests(whole: Path) -> Digests:
    store = open_store(f"sqlite:///{whole}", create=False)
    try:
        digests: Digests = {}
        for stream in await store.all_streams():
            for version in range(1, await store.version(stream) + 1):
                digests[stream, version] = await store.digest(stream, version)
        return digests
    finally:
        await store.close()
