"""What no list can be made of, and no session kept or erased by, is refused in one sentence, on every store alike."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import ConfigurationError
from steptrail.testing import ManualClock, ScriptedModel, say

_DAY = timedelta(days=1)


async def _told(each: object) -> None:
    del each


WRONG: Sequence[tuple[Callable[[Any], Any], str]] = (
    (lambda trail: trail.runs(limit=10**30), "`limit` is a number from 0 to"),
    (lambda trail: trail.runs(limit=-1), "`limit` is a number from 0 to .*, not -1"),
    (lambda trail: trail.runs(limit=float("nan")), "`limit` is a whole number, not float"),
    (lambda trail: trail.runs(limit="3"), "`limit` is a whole number, not str"),
    (lambda trail: trail.runs(limit=True), "`limit` is a whole number, not bool"),
    (lambda trail: trail.runs(agent=1), "`agent`, a name, is a text, not int"),
    (lambda trail: trail.runs(agent="\ud800"), "`agent`, a name, is text that is Unicode"),
    (lambda trail: trail.runs(since=1), "`since` is a datetime with a time zone, not int"),
    (lambda trail: trail.runs(until="2026-01-01"), "`until` is a datetime with a time zone, not str"),
    (lambda trail: trail.inbox(limit=10**30), "`limit` is a number from 0 to"),
    (lambda trail: trail.inbox(limit=-4), "`limit` is a number from 0 to"),
    (lambda trail: trail.due(limit=10**30), "`limit` is a number from 0 to"),
    (lambda trail: trail.due(limit="3"), "`limit` is a whole number"),
    (lambda trail: trail.session("a").result(5), "int"),
    (lambda trail: trail.retain(older_than=1), "older_than is a timedelta, not int"),
    (lambda trail: trail.retain(older_than=_DAY, limit="3"), "`limit` is a whole number"),
    (lambda trail: trail.retain(older_than=_DAY, limit=0), "`limit` is a number from 1 to"),
    (lambda trail: trail.retain(older_than=_DAY, on_erased=5), "`on_erased` is a function, not int"),
    (lambda trail: trail.retain(older_than=_DAY, on_erased=_told), "`on_erased` is a plain function"),
    (lambda trail: trail.retain(older_than=_DAY, limit=1.5), "`limit` is a whole number"),
    (lambda trail: trail.retain(older_than=_DAY, agent=5), "`agent`, a name, is a text, not int"),
    (lambda trail: trail.retain(older_than=_DAY, archive=5), "`archive` is a folder, not int"),
    (lambda trail: trail.retain(older_than=_DAY, archive=""), "`archive` is a folder, and none has the name ''"),
    (lambda trail: trail.retain(older_than=_DAY, archive="a\0b"), "`archive` is a folder, and none has the name 'a"),
    (lambda trail: trail.retain(older_than=_DAY, archive=Path("\ud800")), "`archive` is a folder, and none has the"),
    (lambda trail: trail.retain(older_than=_DAY, dry_run=None), "dry_run is True or False, not NoneType"),
    (lambda trail: trail.retain(older_than=_DAY, dry_run="no"), "dry_run is True or False, not 'no'"),
    (lambda trail: trail.erase("a", by="a", reason="r", dry_run=None), "dry_run is True or False, not NoneType"),
    (lambda trail: trail.erase("a", by="a", reason="r", cascade="no"), "cascade is True or False, not 'no'"),
)


async def test_a_list_that_nobody_can_mean_is_refused(store_url: str) -> None:
    async with Steptrail.open(store_url, clock=ManualClock()) as trail:
        agent = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build()
        await trail.run(agent, "hi", session="a")
        for asked, said in WRONG:
            with pytest.raises(ConfigurationError, match=said):
                await asked(trail)
            assert [row.session_id for row in await trail.runs()] == ["a"]


async def test_a_limit_may_be_as_large_as_a_number_of_the_store(store_url: str) -> None:
    async with Steptrail.open(store_url, clock=ManualClock()) as trail:
        agent = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build()
        await trail.run(agent, "hi", session="a")
        assert (await trail.runs(limit=0), await trail.inbox(limit=0), await trail.due(limit=0)) == ([], [], [])
        assert len(await trail.runs(limit=2**63 - 1)) == 1
        assert [list(await asked(limit=2**63 - 1)) for asked in (trail.inbox, trail.due)] == [[], []]
        assert (await trail.retain(older_than=timedelta.max, limit=2**63 - 1)).erased == ()
