"""The public views that are made of several tables, and the dashboards that ask them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from scripts.grafana import FOLDER, PANELS, SOURCES, dashboard, main as write_dashboards
from steptrail import AgentBuilder, Steptrail, tool
from steptrail.projections.runs_view.spread import bucket_of, middle_of
from steptrail.projections.runs_view.tables import EXECUTIONS
from steptrail.testing import ManualClock, Reply, ScriptedModel, call
from steptrail.tools import ApprovalRule
from steptrail.workflow import Envelope, Workflow
from tests.harness.asked_views import AskedViews
from tests.harness.postgres_server import PostgresServer


@tool
def refund(cents: int) -> str:
    """Refund."""
    raise KeyError(cents)


@tool(approval=ApprovalRule(reason="it moves money"))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def desk(*replies: Reply) -> AgentBuilder:
    return AgentBuilder("desk").with_model(ScriptedModel(replies)).with_tools(refund, pay)


async def a_few_runs(trail: Steptrail) -> None:
    await trail.run(desk("Yes.").build(), "Hi", session="a")
    await trail.session("a").send(desk("Yes.", "Yes, again.").build(), "Hi again")
    await trail.run(desk(call("refund", cents=5), "Sorry.").build(), "Refund", session="b")
    await trail.run(desk(call("pay", cents=5), "Paid.").build(), "Pay", session="c")


async def rows(trail: Steptrail, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in (await trail.views.sql(text)).rows]


async def test_a_session_is_as_its_newest_execution_with_the_sums_over_all(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await a_few_runs(trail)
        assert await rows(trail, "SELECT stream, executions, status, steps, waits_for FROM sessions ORDER BY 1") == [
            ("agent:a", 2, "completed", 2, None),
            ("agent:b", 1, "failed", 1, None),
            ("agent:c", 1, "waiting", 0, "approval"),
        ]
        (times,) = await rows(
            trail, "SELECT began_us < started_us, active_seconds > 0 FROM sessions WHERE stream = 'agent:a'"
        )
        assert [bool(each) for each in times] == [True, True]


async def test_what_waits_is_listed_until_it_goes_on(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await a_few_runs(trail)
        ((stream, kind, is_for_people),) = await rows(trail, "SELECT stream, kind, is_for_people FROM waits")
        assert (stream, kind, bool(is_for_people)) == ("agent:c", "approval", True)
        await trail.session("c").approve("c:1:1:0", by="ana")
        await trail.session("c").resume(desk("Paid.").build())
        assert await rows(trail, "SELECT stream FROM waits") == []


async def test_failures_and_tries_are_listed_whatever_they_are_of(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await a_few_runs(trail)
        found = await rows(trail, "SELECT what, stream, name, error_class, template FROM failures ORDER BY 1")
        assert [row[:4] for row in found] == [
            ("run", "agent:b", "desk", "builtins:KeyError"),
            ("tool", "agent:b", "refund", "builtins:KeyError"),
        ]
        assert len({row[4] for row in found}) == 1
        assert await rows(trail, "SELECT tool, attempt, status FROM attempts ORDER BY 1") == [("refund", 1, "failed")]


async def test_daily_views_add_up_what_ended(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await a_few_runs(trail)
        reasons = await rows(trail, "SELECT stop_reason, sum(runs) FROM stop_reasons_daily GROUP BY 1 ORDER BY 1")
        assert [(reason, int(runs)) for reason, runs in reasons] == [("completed", 2), ("error", 1)]
        ((runs, tokens),) = await rows(trail, "SELECT sum(runs), sum(tokens_input) FROM costs_daily")
        assert (int(runs), int(tokens)) == (3, 30)
        days = await rows(trail, "SELECT DISTINCT day, day_us FROM costs_daily")
        assert all(int(began) % 86_400_000_000 == 0 for _, began in days)


def test_percentiles_are_those_that_stats_tell(tmp_path: Path, postgres_url: str) -> None:
    found: list[list[tuple[Any, ...]]] = []
    for url in (f"sqlite:///{tmp_path / 'runs.db'}", postgres_url):
        asked = AskedViews(url, 300, of=300)
        asked.close()
        with Steptrail.open_sync(url) as trail:
            of_stats = trail.views.stats(by=("agent", "day"), fresh=None).groups
            told = {
                (measure, group.by["agent"], group.by["day"]): found.p50
                for group in of_stats
                for measure, found in group.percentiles.items()
            }
            listed = trail.views.sql(
                "SELECT measure, day, kind, name, runs, p50_seconds FROM percentiles_daily ORDER BY 1, 2, 3, 4",
                fresh=None,
            ).rows
            alone = {(row[0], row[3], str(row[1])): row[5] for row in listed}
            spread = trail.views.sql("SELECT DISTINCT bucket, middle_seconds FROM spread_daily", fresh=None).rows
        found.append([(*row[:1], str(row[1]), *row[2:5]) for row in listed])
        assert len({day for *_, day in told}) > 20
        assert alone == pytest.approx(told)
        for bucket, seconds in spread:
            assert float(str(seconds)) == pytest.approx(middle_of(int(str(bucket))) / 1e6)
    assert found[0] == found[1]


@pytest.mark.parametrize("microseconds", [0, 1, 999, 10**6, 3_600 * 10**6, 30 * 86_400 * 10**6])
def test_a_bucket_stands_for_what_is_in_it(microseconds: int) -> None:
    assert middle_of(bucket_of(microseconds)) == pytest.approx(microseconds, rel=0.021)


def asked_of(target: Mapping[str, Any], begin: int = 0, end: int = 4_102_444_800_000) -> str:
    """Return the question of a panel as Grafana sends it, for a time in milliseconds, or for all time."""
    text: str = target.get("rawSql") or target["rawQueryText"]
    return text.replace("${__from}", str(begin)).replace("${__to}", str(end))


async def test_every_panel_of_the_dashboard_has_an_answer(store_url: str) -> None:
    name = "sqlite" if store_url.startswith("sqlite") else "postgresql"
    board = json.loads((FOLDER / f"grafana-{name}.json").read_text("utf-8"))
    answers: dict[str, Any] = {}
    async with Steptrail.open(store_url) as trail:
        await a_few_runs(trail)
        for panel in board["panels"]:
            (target,) = panel["targets"]
            answer = await trail.views.sql(asked_of(target))
            assert answer.rows, panel["title"]
            if panel["type"] == "timeseries":
                assert list(answer.columns)[:2] == ["time", "metric"]
                assert all(float(str(row[0])) % 86_400 == 0 for row in answer.rows)
            answers[panel["title"]] = answer.rows
    assert answers["Runs that ended"] == [(3,)]
    assert float(answers["Failed"][0][0]) == pytest.approx(1 / 3)
    assert answers["Waiting for people"] == [(1,)]
    assert {row[1]: int(row[2]) for row in answers["Why runs stopped"]} == {"completed": 2, "error": 1}
    assert [(row[0], int(row[1]), int(row[2])) for row in answers["Tools that fail"]] == [("refund", 1, 1)]
    assert [row[1] for row in answers["Failed runs"]] == ["agent:b"]
    assert [row[2] for row in answers["What waits, and for what"]] == ["agent:c"]


async def test_a_panel_counts_what_ended_in_the_time_that_is_looked_at(store_url: str) -> None:
    name = "sqlite" if store_url.startswith("sqlite") else "postgresql"
    board = json.loads((FOLDER / f"grafana-{name}.json").read_text("utf-8"))
    targets = {panel["title"]: panel["targets"][0] for panel in board["panels"]}
    first = datetime(2027, 1, 15, tzinfo=UTC)
    day, midnight = 86_400_000, int(first.timestamp()) * 1000
    clock = ManualClock(first + timedelta(hours=23, minutes=59, seconds=59, microseconds=999_999))
    async with Steptrail.open(store_url, clock=clock) as trail:

        async def asked(title: str, begin: int, end: int) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in (await trail.views.sql(asked_of(targets[title], begin, end))).rows]

        for number in range(3):
            await trail.run(desk(call("refund", cents=5), "Sorry.").build(), "Refund", session=f"s{number}")
            clock.advance(timedelta(days=1))
        for past in range(3):
            # A whole day, as Grafana has it: up to its last millisecond.
            begin, end = midnight + past * day, midnight + (past + 1) * day - 1
            assert await asked("Runs that ended", begin, end) == [(1,)]
            assert [int(row[1]) for row in await asked("Tools that fail", begin, end)] == [1]
            assert [int(row[0]) * 1000 for row in await asked("Why runs stopped", begin, end)] == [begin]
        for begin in (-3_600_000, 3_600_000):  # the beginning of 1970, in another time zone
            assert await asked("Runs that ended", begin, midnight + 5 * day) == [(3,)]
            assert [int(row[1]) for row in await asked("Tools that fail", begin, midnight + 5 * day)] == [3]


async def test_tools_and_nodes_that_never_fail_are_not_listed_and_those_that_are_tolerated_are(store_url: str) -> None:
    def away(envelope: Envelope) -> str:
        raise ConnectionError("away")

    flow = Workflow("tolerant").function("ask", away, on_error="continue").noop("on").chain("ask", "on").build()
    (panel,) = [panel for panel in PANELS if panel.title == "Tools that fail"]
    async with Steptrail.open(store_url) as trail:
        assert (await trail.run(flow, session="f")).status == "completed"
        found = (await trail.views.sql(asked_of({"rawSql": panel.sql}))).rows
        assert [(row[0], int(str(row[1])), int(str(row[2]))) for row in found] == [("ask", 1, 1)]


def test_panels_do_not_overlap_and_the_files_are_fresh() -> None:
    assert write_dashboards(["--check"]) == 0
    for source in SOURCES.values():
        taken: set[tuple[int, int]] = set()
        for panel in dashboard(source)["panels"]:
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            assert not cells & taken
            assert max(x for x, _ in cells) < 24
            taken |= cells
    assert len({panel.title for panel in PANELS}) == len(PANELS)


async def test_a_reader_of_dashboards_sees_the_views_and_not_the_log(
    postgres_server: PostgresServer, postgres_database: str, postgres_url: str
) -> None:
    made = "CREATE ROLE steptrail_reader LOGIN PASSWORD 'chosen'"
    postgres_server.execute(made, "ALTER ROLE steptrail_reader SET search_path = steptrail_views")
    try:
        async with Steptrail.open(postgres_url) as trail:
            await a_few_runs(trail)
            generation = await trail.views.rebuild()
            await trail.run(desk("Yes.").build(), "Hi", session="d")
            await trail.views.wait()
        address = postgres_server.url(postgres_database, user="steptrail_reader", password="chosen")  # noqa: S106

        def asked(text: str) -> list[tuple[Any, ...]]:
            with psycopg.connect(address, autocommit=True) as connection:
                return connection.execute(text.encode()).fetchall()

        assert asked("SELECT count(*) FROM sessions") == [(4,)]
        assert asked("SELECT count(*) FROM percentiles_daily")[0][0] > 0
        for secret in ("steptrail.events", "steptrail.streams", f"steptrail_views_{generation}.{EXECUTIONS.name}"):
            with pytest.raises(InsufficientPrivilege):
                asked(f"SELECT * FROM {secret}")  # noqa: S608 - names of ours
        with pytest.raises(InsufficientPrivilege):
            asked("DELETE FROM sessions")
    finally:
        postgres_server.execute("DROP OWNED BY steptrail_reader", database=postgres_database)
        postgres_server.execute("DROP ROLE steptrail_reader")
