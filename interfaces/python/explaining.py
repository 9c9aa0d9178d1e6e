"""Why a stored run stopped: what is read for an explanation, and in which order."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from steptrail.domain.errors import ConfigurationError, CorruptRecord, StoreError
from steptrail.domain.kernel.by_prefix import id_of
from steptrail.domain.kernel.machine import Machine
from steptrail.domain.kernel.record import Recorded, StreamHead
from steptrail.domain.newest import Newest
from steptrail.domain.shared.events import SessionScored
from steptrail.projections.kinds import PROJECTIONS, Explainer, ExplainerOfState, Explanation
from steptrail.projections.run_explanation import RunExplanation
from steptrail.projections.scores import RecordedScore, recorded_scores, that_count
from steptrail.runtime.kernel.collector import collector_off
from steptrail.runtime.kernel.history import LARGE_PAGE, pages
from steptrail.runtime.kernel.kinds import KINDS, not_found
from steptrail.runtime.kernel.ports import EventStore
from steptrail.runtime.kernel.snapshots import Snapshots

_AT_ONCE = 500
"""How many events are explained before others have the event loop: a page is read for one who asks, and is longer."""


class Explainers:
    """Keeps the explainers of long streams, for one who asks again and again: only what is new is read then.

    An explanation shares its state with the explainer that is kept, so use it before anything else is awaited.

    The first time the snapshot of a long stream is trusted. The proof of the events before it takes most of what an
    answer may take, so it comes `proof_seconds` later. Where it fails, the next answer is made of all events, and tells
    the damage.
    """

    def __init__(self, *, most: int = 4, least_events: int = 1_000, proof_seconds: float = 1.0) -> None:
        self._least, self._proof_seconds = least_events, proof_seconds
        self._kept = Newest[str, Explainer](most)
        self._proofs: dict[str, asyncio.Task[None]] = {}
        self._unsound: set[str] = set()

    def take(self, stream: str) -> Explainer | None:
        """Return the explainer of a stream, which nobody else has from now on; None when none is kept."""
        return self._kept.pop(stream, None)

    def keep(self, stream: str, explainer: Explainer) -> None:
        """Keep the explainer of a stream, as the one that was asked for last."""
        if explainer.version >= self._least and stream not in self._unsound:
            self._kept.keep(stream, explainer)

    def is_unsound(self, stream: str) -> bool:
        """Tell whether a proof has failed, so that no snapshot of the stream is trusted."""
        return stream in self._unsound

    def prove(self, store: EventStore, stream: str, upto: StreamHead) -> None:
        """Prove a little later that all events of a stream up to a head can be read."""
        if stream not in self._proofs:
            task = asyncio.create_task(self._prove(store, stream, upto), name="steptrail-proof")
            self._proofs[stream] = task
            task.add_done_callback(lambda _: self._proofs.pop(stream, None))

    async def proofs(self) -> None:
        """Wait for the proofs that are not done yet."""
        await asyncio.gather(*self._proofs.values())

    async def _prove(self, store: EventStore, stream: str, upto: StreamHead) -> None:
        await asyncio.sleep(self._proof_seconds)
        with suppress(StoreError):  # a store that cannot be asked now says nothing of its events
            if await store.proven(stream, upto, {}) is None:
                self._unsound.add(stream)
                self._kept.pop(stream, None)


async def explained(
    store: EventStore,
    stream: str,
    *,
    now: int,
    execution: str | int | None = None,
    explainers: Explainers | None = None,
) -> Explanation:
    """Explain the newest execution of a stream, or the one of that id or number; see `Handle.why`."""
    kind, projections = KINDS.of(stream), PROJECTIONS.of(stream)
    if kind is None or projections is None:
        raise ConfigurationError(f"nothing here can explain streams like {stream!r}")

    kept = explainers if execution is None else None

    async def told(*, at: int | None = None) -> Explainer:
        explainer = kept.take(stream) if kept is not None and at is None else None
        if explainer is not None:
            await _go_on(explainer, store, stream, kind.machine)
            if projections.explain_state is None or not projections.explain_state.lacks(explainer):
                return explainer
            explainer = None
        if at is None and execution is None and projections.explain_state is not None:
            explainer = await _from_snapshot(store, stream, kind.machine, projections.explain_state, kept)
        if explainer is None:
            explainer = projections.explain(id_of(stream), execution)
            await _go_on(explainer, store, stream, kind.machine, at=at)
        return explainer

    at, damage = None, None
    while True:
        try:
            explainer = await told(at=at)
        except CorruptRecord as error:
            # What comes before the damage still says something. A read that ends there may meet another one.
            if error.stream != stream or error.version < 2:
                raise
            at, damage = error.version - 1, str(error)
            continue
        if not explainer.version:
            raise await not_found(store, stream)
        scores = that_count(await scores_in(store, stream))
        owned = await store.is_leased(stream)
        # Who lets go of the lease has stored its last event before: a run that has ended meanwhile is no crash.
        if owned is not False or damage is not None or await store.version(stream) <= explainer.version:
            explanation = explainer.explanation(now=now, owned=owned, damage=damage)
            if kept is not None and damage is None:
                kept.keep(stream, explainer)
            if scores and isinstance(explanation, RunExplanation):
                number = explanation.state.fold.executions
                return replace(explanation, scores=tuple(each for each in scores if each.execution == number))
            return explanation


async def scores_in(store: EventStore, stream: str) -> Sequence[RecordedScore]:
    """Return the scores of a stream that can be read, oldest first. Those of a fork's past are not its own."""
    log = store.log(stream=stream, types=[SessionScored.TYPE], on_corrupt=lambda _: None)
    return recorded_scores([entry.record async for entry in log])


async def _go_on(
    explainer: Explainer, store: EventStore, stream: str, machine: Machine[Any, Any, Any, Any], at: int | None = None
) -> None:
    async for records, _ in pages(machine, store, stream, after=explainer.version, at=at, most=LARGE_PAGE):
        for begin in range(0, len(records), _AT_ONCE):
            with collector_off():
                explainer.add(records[begin : begin + _AT_ONCE])
            await asyncio.sleep(0)


async def _from_snapshot(
    store: EventStore,
    stream: str,
    machine: Machine[Any, Any, Any, Any],
    begin: ExplainerOfState,
    explainers: Explainers | None,
) -> Explainer | None:
    """Return an explainer that began at the snapshot; None for a fork, and where an event before may be damaged."""
    if explainers is not None and explainers.is_unsound(stream):
        return None
    found = await Snapshots(machine, store, stream).newest()
    first = (await store.read(stream, limit=1)).records if found is not None else ()
    if found is None or any(machine.forked_from(record.event) is not None for record in first):
        return None
    state, head = found

    async def events(types: Mapping[str, bytes]) -> Sequence[Recorded[Any]] | None:
        if explainers is None:
            return await store.proven(stream, head, types)
        explainers.prove(store, stream, head)
        try:
            return await store.newest_of(stream, head, types)
        except CorruptRecord:
            return None

    before = await events(begin.types)
    if before is None:
        return None
    explainer = begin.make(id_of(stream), state, before)
    await _go_on(explainer, store, stream, machine)
    if lacking := begin.lacks(explainer):
        more = await events(lacking)
        if more is None:
            return None
        begin.recall(explainer, more)
    return explainer
