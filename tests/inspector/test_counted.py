"""What the read models tell the inspector: failures that are alike, sums, and lists by what only these know."""

import re
from collections.abc import AsyncGenerator
from datetime import date
from pathlib import Path

import httpx
import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.inspector import inspector
from steptrail.interfaces.http.inspector.charts import DaySeries, chart, days_between
from steptrail.projections.rendering import dollars
from steptrail.projections.runs_view.view import RunsView
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Workflow
from tests.harness.postgres_server import PostgresServer
from tests.inspector.conftest import Opened, everything
from tests.inspector.inspected import desk
from tests.inspector.test_pages import words
from tests.inspector.test_security import of_acme

RUNS = re.compile(r'<a href="/runs/([^"?#]+)" data-row>')


@tool(effect=ToolEffect.READ)
def burn(text: str) -> str:
    """Fail in a way of its own."""
    raise RuntimeError(text)


@pytest.fixture
async def trail(tmp_path: Path) -> AsyncGenerator[Steptrail]:
    """A store in which three runs have failed in the same way, and one in another."""
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as opened:
        for number in range(3):
            await opened.run(desk(call("look_up", key=f"key-{number}"), "no"), "Look it up", session=f"lost-{number}")
        stove = AgentBuilder("stove").with_model(ScriptedModel([call("burn", text="hot"), "no"])).with_tools(burn)
        await opened.run(stove.build(), "Go", session="burnt", metadata={"tags": {"user": "u7"}})
        yield opened


def browsing(trail: Steptrail) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(inspector(trail, authorize=everything))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400")


@pytest.fixture
async def client(trail: Steptrail) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a store in which all is counted."""
    await trail.views.wait()
    async with browsing(trail) as made:
        yield made


@pytest.mark.acceptance("8.6-14")
async def test_a_failed_run_leads_to_the_others_that_failed_in_the_same_way(client: httpx.AsyncClient) -> None:
    page, alone = (await client.get("/runs/lost-1")).text, (await client.get("/runs/burnt")).text
    (way,) = re.findall(r'href="([^"]+)" data-row data-alike>the same in 3 runs in the last 7 days<', page)
    listed = (await client.get(way.replace("&amp;", "&"))).text
    assert RUNS.findall(listed) == ["lost-2/1", "lost-1/1", "lost-0/1"]
    assert "3 runs" in words(listed)
    assert "the same in 1 run in the last 7 days" in words(alone)


async def test_failures_that_are_alike_are_one_row_with_a_run_to_look_at(client: httpx.AsyncClient) -> None:
    page = (await client.get("/failures")).text
    rows = [words(f"<main>{row}") for row in re.findall(r"<tr>\n<th scope=\"row\".*?</tr>", page, re.S)]
    assert len(rows) == 2
    assert "KeyError in look_up" in rows[0]
    assert "3 3 0" in rows[0]
    assert rows[0].endswith("lost-2")
    assert "key-" not in page
    assert words((await client.get("/failures?agent=stove")).text).count(" in burn ") == 1
    assert "Nothing has failed since then." in words((await client.get("/failures?agent=nobody")).text)


FILTERED = {
    "tool=burn": ["burnt/1"],
    "error_class=builtins:RuntimeError": ["burnt/1"],
    "tag=user%3Du7": ["burnt/1"],
    "tag=user%3Du8": [],
    "since=1h&agent=stove": ["burnt/1"],
    "until=2020-01-01": [],
    "order=oldest&status=failed": ["lost-0/1", "lost-1/1", "lost-2/1", "burnt/1"],
    "status=crashed": [],
    "tokens=10&agent=stove": ["burnt/1"],
    "tokens=1000": [],
    "tool=burn&parent=lost-0": [],
}
WRONG = ("since=yesterday", "order=best", "cost=much", "cost=-1", "after=x&order=oldest", "since=d0", "tool=%00")


async def test_a_filter_of_the_read_models_is_in_the_address(client: httpx.AsyncClient) -> None:
    for query, found in FILTERED.items():
        assert RUNS.findall((await client.get(f"/runs?{query}")).text) == found, query


async def test_a_filter_that_makes_no_sense_is_refused(client: httpx.AsyncClient) -> None:
    for query in WRONG:
        assert (await client.get(f"/runs?{query}")).status_code == 400, query


async def test_a_long_list_comes_in_pages_that_miss_and_repeat_no_run(trail: Steptrail) -> None:
    for number in range(60):
        await trail.run(desk("Yes."), "Hi", session=f"quick-{number:02}")
    await trail.views.wait()
    async with browsing(trail) as client:
        first = (await client.get("/runs?since=1h")).text
        (way,) = re.findall(r'href="([^"]+)" rel="next"', first)
        await trail.run(desk("Yes."), "Hi", session="meanwhile")
        second = (await client.get(way.replace("&amp;", "&"))).text
    seen = RUNS.findall(first) + RUNS.findall(second)
    assert "64 runs" in words(first)
    assert len(RUNS.findall(first)) == 50
    assert sorted(seen) == sorted(
        [*(f"quick-{each:02}/1" for each in range(60)), *(f"lost-{each}/1" for each in range(3)), "burnt/1"]
    )
    assert 'rel="next"' not in second


@pytest.mark.acceptance("8.6-15")
async def test_sums_are_charts_and_the_same_as_a_table(client: httpx.AsyncClient) -> None:
    page = (await client.get("/stats")).text
    said, today = words(page), date.today().isoformat()  # noqa: DTZ011 - only its form
    assert "runs that ended 4 failed 4 100.0 %" in said
    assert "again" not in said.partition("spent in vain")[2].partition("Runs that ended")[0]
    assert "$" not in said
    assert re.search(rf"{today[:4]}-\d\d-\d\d, failed: 4", said)
    assert re.search(r"stove 1 100.0 % error 1", said)
    assert re.search(r"look_up 3 100.0 % \S+ builtins:KeyError 3", said)
    assert page.count('<svg class="chart"') == 3
    assert "No run has ended since then." in words((await client.get("/stats?agent=nobody")).text)
    assert (await client.get("/stats?since=soon")).status_code == 400


async def test_a_tenant_counts_its_own_runs_alone(opened: Opened) -> None:
    async with opened(authorize=of_acme) as client:
        sums, failures = words((await client.get("/stats")).text), words((await client.get("/failures")).text)
        listed = (await client.get("/runs?since=1h")).text
        health = words((await client.get("/health")).text)
    assert "runs that ended 1 failed 0" in sums
    assert "Nothing has failed since then." in failures
    assert RUNS.findall(listed) == ["answered/1"]
    assert "counts" not in health


@pytest.mark.acceptance("8.6-16")
async def test_a_page_says_how_far_the_count_has_come(trail: Steptrail, client: httpx.AsyncClient) -> None:
    counted = await trail.store.last_position()
    another = await trail.store.acquire(f"projector:runs:{RunsView.version}", owner="a process that hangs")
    await trail.run(desk(call("look_up", key="key-4"), "no"), "Hi", session="newer")
    percent = counted * 100 // await trail.store.last_position()
    for page in ("/stats", "/failures", "/runs?since=1h"):
        said = words((await client.get(page)).text)
        assert f"Counted to {percent} % of the log" in said, page
    assert f"like it counted to {percent} % of the log" in words((await client.get("/runs/newer")).text)
    await another.release()
    await trail.views.wait()
    assert "Counted to" not in words((await client.get("/stats")).text)
    assert "the same in 4 runs in the last 7 days" in words((await client.get("/runs/newer")).text)
    assert "Counted to" not in words((await client.get("/stats")).text)


@pytest.mark.acceptance("8.6-22")
async def test_counts_that_cannot_be_read_leave_all_other_pages(trail: Steptrail, tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as another:
        await another.views.wait()
    for each in (tmp_path / "runs.db-views").glob("[0-9]*.db"):
        each.write_bytes(b"no database" * 1_000)
    async with browsing(trail) as client:
        for page in ("/stats", "/failures", "/runs?since=1h"):
            answer = await client.get(page)
            assert answer.status_code == 200
            assert "The counts cannot be read: " in words(answer.text), page
        for page in ("/", "/runs", "/runs/lost-1", "/health"):
            answer = await client.get(page)
            assert answer.status_code == 200, page
            assert "The counts" not in words(answer.text)


async def test_counts_of_a_store_that_is_away_are_not_to_be_made_anew() -> None:
    with PostgresServer() as server:
        async with Steptrail.open(server.url(server.create_database())) as trail:
            await trail.views.wait()
            server.stop()
            async with browsing(trail) as client:
                for page in ("/stats", "/failures", "/runs?since=1h"):
                    answer = await client.get(page)
                    assert answer.status_code == 503, page
                    assert "cannot be reached" in words(answer.text)
                    assert "rebuild" not in answer.text
                server.start()
                assert (await client.get("/stats")).status_code == 200


async def test_the_health_says_how_the_counts_stand(trail: Steptrail) -> None:
    async with browsing(trail) as client:
        before = words((await client.get("/health")).text)
        await trail.views.wait()
        after = words((await client.get("/health")).text)
    assert "counts not made yet" in before
    assert re.search(r"counts \(runs\) up to date, [\d.]+ kB", after)


def test_a_chart_has_every_day_and_its_highest_column_is_as_high_as_it_is() -> None:
    days = days_between(["2026-04-28", "2026-05-01"], date(2026, 5, 2))
    drawn = chart(
        "Runs",
        days,
        [
            DaySeries("good", "good", {"2026-04-28": 3, "2026-05-01": 1}),
            DaySeries("bad", "bad", {"2026-04-28": 1}),
            DaySeries("none", "warn", {}),
        ],
        lambda value: f"{value:.0f}",
    )
    assert days == ["2026-04-28", "2026-04-29", "2026-04-30", "2026-05-01", "2026-05-02"]
    assert [(each.day, each.x, each.y, each.height) for each in drawn.columns] == [
        ("2026-04-28", 20.0, 24.0, 72.0),
        ("2026-04-28", 20.0, 0.0, 24.0),
        ("2026-05-01", 620.0, 72.0, 24.0),
    ]
    assert [each.name for each in drawn.legend] == ["good", "bad"]
    assert drawn.most == "4"
    assert len(days_between(["2000-01-01"], date(2026, 5, 2))) == 120
    assert days_between([], date(2026, 5, 2)) == ["2026-05-02"]
    # A run that a clock a year ahead has stored takes nothing away of what is there.
    assert days_between(["2026-05-01", "2027-05-02"], date(2026, 5, 2)) == ["2026-05-01", "2026-05-02", "2026-05-03"]


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0.0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.999, "$1.00"),
        (0.4, "$0.40"),
        (0.04, "$0.04"),
        (0.0123, "$0.012"),
        (0.00000123, "$0.0000012"),
    ],
)
def test_dollars_are_said_as_far_as_they_can_be_seen(amount: float, said: str) -> None:
    assert dollars(amount) == said


async def test_the_sums_say_how_many_nodes_are_left_out() -> None:
    flow = Workflow("wide")
    for number in range(60):
        flow = flow.noop(f"n{number}")
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(flow.build())
        await trail.views.wait()
        app = inspector(trail, authorize=everything)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8400") as client:
            assert "10 more, each called no more often." in words((await client.get("/stats")).text)
