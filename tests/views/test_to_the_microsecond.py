"""Instants in the views are those of the log, to the microsecond, and on the day on which they are counted."""

from datetime import UTC, datetime, timedelta
from typing import Any

from steptrail import AgentBuilder, Steptrail
from steptrail.testing import ManualClock, ScriptedModel, say

_ASKED = """
SELECT e.stream, e.ended_at, e.ended_us, d.day FROM executions e
JOIN runs_daily d ON d.day_us <= e.ended_us AND e.ended_us < d.day_us + 86400000000 ORDER BY e.execution
"""
BEFORE_MIDNIGHT = (
    datetime(2028, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2028, 2, 29, 23, 59, 59, 999_500, tzinfo=UTC),
    datetime(2027, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2027, 1, 15, tzinfo=UTC),
)


async def test_a_run_stands_on_its_own_day_up_to_the_last_microsecond(store_url: str) -> None:
    for at in BEFORE_MIDNIGHT:
        agent = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build()
        async with Steptrail.open(store_url, clock=ManualClock(at)) as trail:
            await trail.run(agent, "hi", session=f"{at:%Y-%m-%d}")
    async with Steptrail.open(store_url) as trail:
        found: Any = (await trail.views.sql(_ASKED)).rows
    assert len(found) == len(BEFORE_MIDNIGHT)
    for at, (stream, ended_at, ended_us, day) in zip(BEFORE_MIDNIGHT, found, strict=True):
        told = datetime.fromisoformat(ended_at) if isinstance(ended_at, str) else ended_at
        assert told == at == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ended_us)
        assert (stream, str(day)) == (f"agent:{at:%Y-%m-%d}", at.date().isoformat())
