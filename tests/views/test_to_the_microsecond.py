"""Instants in the views are those of the log, to the microsecond, and on the day on which they are counted."""

from datetime import UTC, datetime, timedelta
from typing import Any

from steptrail import AgentBuilder, Steptrail
from steptrail.events import LogEntry
from steptrail.projections import INSTANT, Changes, Column, ColumnKind, Table
from steptrail.testing import ManualClock, ScriptedModel, say
from tests.views.test_own_projections import Refunds, desk

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


class Instants(Refunds):
    """Keeps a number as an instant and as a day: a date of birth, say, or whatever a model has made up."""

    _OWN = Table(
        name="v1_instants",
        says="instants",
        columns=(
            Column("position", ColumnKind.INTEGER, "the place"),
            Column("at", ColumnKind.INTEGER, "an instant", INSTANT),
            Column("day", ColumnKind.INTEGER, "its day", "days since 1970-01-01"),
        ),
        key=("position",),
    )
    name = "instants"

    def __init__(self) -> None:
        super().__init__()
        self.tables = (self._OWN,)

    def apply(self, fold: int, entry: LogEntry, changes: Changes) -> int | None:
        event: Any = entry.record.event
        at = event.result["cents"]
        changes.put(self._OWN, {"position": entry.position, "at": at, "day": at // 86_400_000_000})
        return fold


async def test_instants_of_a_service_are_shown_whenever_they_were_and_one_that_no_calendar_has_as_none(
    store_url: str,
) -> None:
    given = [
        *(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(1955, 2, 28, 0, 0, 0, 1, tzinfo=UTC)),
        *(datetime(1582, 10, 4, 12, tzinfo=UTC), datetime(9999, 12, 30, 23, 59, 59, tzinfo=UTC)),
    ]
    in_microseconds = [(each - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) for each in given]
    async with Steptrail.open(store_url, projections=[Instants()]) as trail:
        for number, at in enumerate([*in_microseconds, 2**62, -(2**62)]):
            await trail.run(desk(at), "hi", session=f"s{number}")
        found: Any = (await trail.views.sql("SELECT at, day FROM instants ORDER BY position")).rows
    told = [(datetime.fromisoformat(at) if isinstance(at, str) else at, str(day)) for at, day in found[:-2]]
    assert told == [(at, at.date().isoformat()) for at in given]
    assert found[-2:] == [(None, None)] * 2
