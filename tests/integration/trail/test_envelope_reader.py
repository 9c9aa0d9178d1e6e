"""Whoever begins to follow in the middle is told what somebody is told who was there from the beginning."""

from collections.abc import Sequence

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.ids import checked_session_id
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.infrastructure.broadcast import envelope_reader
from steptrail.infrastructure.broadcast.envelope_reader import EnvelopeReader, fold_at
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope
from steptrail.projections.broadcast.fold import envelopes_of
from steptrail.testing import Reply, call
from tests.runner.kit import agent_of, trail_of

CONFIG = BroadcastConfig(include_continuation_trace=True)


async def with_sessions(trail: Steptrail) -> Sequence[LogEntry]:
    """Return the log of two runs, a second run in one of the sessions, and a fork."""
    for session in ("a", "b", "a"):
        script: list[Reply] = [call("add", a=1, b=2), call("fail"), "done"]
        await trail.run(agent_of(script).build(), "go", session=session)
    fork = await trail.session("b").fork(session="c")
    await fork.send(agent_of(["done"]).build(), "and now?")
    return [entry async for entry in trail.subscribe(follow=False)]


async def whole(trail: Steptrail) -> dict[str, tuple[BroadcastEnvelope, ...]]:
    return {each: envelopes_of(each, await trail.session(each).history(), CONFIG) for each in ("a", "b", "c")}


async def test_from_every_entry_on_a_follower_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope_reader, "_LOOK_BACK", 1)
    async with trail_of() as trail:
        entries, expected = await with_sessions(trail), await whole(trail)
        for begin in range(len(entries)):
            follower, told = EnvelopeReader(trail.store, CONFIG), dict[str, list[BroadcastEnvelope]]()
            for entry in entries[begin:]:
                told.setdefault(entry.id, []).extend(await follower.envelopes(entry))
            for session, made in told.items():
                assert made == list(expected[session][len(expected[session]) - len(made) :])
            if not begin:
                assert {session: tuple(made) for session, made in told.items()} == expected


async def test_entries_that_come_again_or_are_left_out_are_told_the_same() -> None:
    async with trail_of() as trail:
        entries, expected = await with_sessions(trail), await whole(trail)
        known = {(each.session_id, each.id): each for made in expected.values() for each in made}
        follower = EnvelopeReader(trail.store, CONFIG)
        for entry in [*entries[::3], *entries[::2], *entries]:
            for made in await follower.envelopes(entry):
                assert made == known[made.session_id, made.id]


async def test_a_fold_is_the_same_at_every_version_however_far_it_looks_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with trail_of() as trail:
        await with_sessions(trail)
        for session in map(checked_session_id, "abc"):
            for version in range(1, await trail.store.version(f"agent:{session}") + 1):
                found = set[str | None]()
                for look_back in (1, 64):
                    monkeypatch.setattr(envelope_reader, "_LOOK_BACK", look_back)
                    fold = await fold_at(trail.store, f"agent:{session}", version, CONFIG)
                    assert fold is not None
                    assert fold.version == version
                    found.add(fold.envelopes.last_id)
                assert len(found) == 1
