"""However long a run is and however many there are, a page has a known size; a long run has a minimap."""

import asyncio
import gzip
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail
from steptrail.inspector import inspector
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import BuiltWorkflow, Envelope, RunOptions, Workflow
from tests.harness.asked_views import AskedViews
from tests.inspector.conftest import everything
from tests.inspector.inspected import desk, look_up, search
from tests.inspector.test_pages import words
from tests.inspector.test_security import HERE

pytestmark = pytest.mark.slow("stores a long run, and thousands of short ones")
STEPS = 260


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that has more events than a page draws bars of, and in which one call failed; and many short ones."""
    url = f"sqlite:///{tmp_path_factory.mktemp('stored') / 'runs.db'}"
    asyncio.run(_store(url))
    return url


async def _store(url: str) -> None:
    script = [call("search", query=f"shelf {number}") for number in range(STEPS)]
    script[40] = call("look_up", key="missing")
    agent = AgentBuilder("long").with_model(ScriptedModel([*script, "Nowhere."])).with_tools(search, look_up)
    agent = agent.with_max_steps(STEPS + 1).with_max_tokens(10**6)
    async with Steptrail.open(url) as trail:
        policy = ErrorPolicy.retry_all(max_retries=3)
        await trail.run(agent.with_error_policy(policy).build(), "Look for it", session="long")
        await trail.run(chain(), "x", session="chain")
        for number in range(60):
            await trail.run(desk("Yes."), "Hi", session=f"quick-{number}")
        await trail.views.wait()


def chain() -> BuiltWorkflow:
    """Return a workflow of twice as many nodes, for each has half as many events; one fails and is recorded."""

    def work(envelope: Envelope) -> str:
        return "done"

    def fail(envelope: Envelope) -> str:
        raise ConnectionError("away")

    names, flow = (
        [f"n{number}" for number in range(2 * STEPS)],
        Workflow("chain", options=RunOptions(continue_on_error=True)),
    )
    for name in names:
        flow = flow.function(name, fail if name == "n40" else work)
    return flow.chain(*names).build()


@pytest.fixture
async def client(stored: str) -> AsyncGenerator[httpx.AsyncClient]:
    async with Steptrail.open(stored, create=False, read_only=True) as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as made:
            yield made


async def test_pages_and_what_they_load_have_a_known_size(client: httpx.AsyncClient) -> None:
    page, listed = (await client.get("/runs/long")).text, (await client.get("/runs")).text
    own = [path.read_bytes() for path in (HERE / "static" / "own").iterdir()]
    assert len(re.findall(r'<tr id="e\d+"', page)) <= 200
    assert len(re.findall(r"<(?!/)", page)) < 4_000
    assert len(page) < 250_000
    assert len(gzip.compress(page.encode())) < 25_000
    assert len(re.findall(r"<tr>\n<th scope", listed)) == 50
    assert len(listed) < 40_000
    assert sum(map(len, own)) < 32_000


@pytest.mark.acceptance("8.6-23")
async def test_a_long_run_has_all_its_steps_in_a_minimap_that_leads_to_each_part(client: httpx.AsyncClient) -> None:
    page = (await client.get("/runs/long")).text
    drawn = re.findall(r'class="chart map".*?</svg>', page, re.DOTALL)[0]
    columns = re.findall(r'\?w=(\d+)#bars" tabindex="-1"><rect class="bar (\w+)( out)?".*?<title>(.*?)</title>', drawn)
    (way,) = re.findall(r'Errors: <a href="([^"]+)">step 41</a>', page)
    there = (await client.get(way.replace("&amp;", "&"))).text
    earlier = words((await client.get(f"/runs/long?w={columns[0][0]}")).text)
    assert len(columns) == STEPS // 2 + 1
    assert [said for _, tone, _, said in columns if tone == "bad"] == [
        next(said for *_, said in columns if said.startswith("steps 40 to 41: "))
    ]
    assert [bool(out) for _, _, out, _ in columns] == sorted((bool(out) for *_, out, _ in columns), reverse=True)
    assert len(drawn) < 40_000
    assert "look_up" in words(there)
    assert "step 1 " in earlier
    assert "chart map" not in (await client.get("/runs/quick-1")).text


async def test_a_choice_of_bars_stays_with_the_window_and_the_execution(client: httpx.AsyncClient) -> None:
    page = (await client.get("/runs/long/1?w=400&bars=errors")).text
    (later,) = re.findall(r'<a href="([^"]+)">Later</a>', page)
    drawn = re.findall(r'class="chart map".*?</svg>', page, re.DOTALL)[0]
    assert re.findall(r"data-row data-step>([^<]+)<", page) == ["step 41"]
    assert 'href="/runs/long/1?w=400&amp;bars=rests#bars"' in page
    assert all(f"/runs/long/1?w={number}&amp;bars=errors#bars" in drawn for number in re.findall(r"w=(\d+)", drawn))
    assert re.fullmatch(r"/runs/long/1\?w=\d+&amp;bars=errors#bars", later)
    # The last step goes on behind the window; it is not open until now.
    rows = words((await client.get("/runs/long/1?w=400")).text).partition("Decision")[0]
    assert re.search(r"step 50 [\d.]+ m?s, goes on", rows)
    assert "s, open" not in rows


async def test_a_long_workflow_has_all_its_visits_in_a_minimap(client: httpx.AsyncClient) -> None:
    page = (await client.get("/runs/flow:chain")).text
    drawn = re.findall(r'class="chart map".*?</svg>', page, re.DOTALL)[0]
    columns = re.findall(r'\?w=(\d+)#bars" tabindex="-1"><rect class="bar (\w+)( out)?".*?<title>(.*?)</title>', drawn)
    (way,) = re.findall(r'Errors: <a href="([^"]+)">n40</a>', page)
    assert len(columns) == 2 * STEPS // 3 + 1
    assert [said.partition(":")[0] for _, tone, _, said in columns if tone == "bad"] == ["visits 39 to 41"]
    assert "n40" in words((await client.get(way.replace("&amp;", "&"))).text)


async def lists_of(url: str, runs: int) -> dict[str, str]:
    """Return pages over so many runs that are only in the read models."""
    asked = await asyncio.to_thread(AskedViews, url, runs, of=runs)
    await asyncio.to_thread(asked.close)
    found: dict[str, str] = {}
    async with Steptrail.open(url) as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as made:
            for path in LISTS:
                answer = await made.get(path)
                assert answer.status_code == 200, path
                found[path] = answer.text
            (way,) = re.findall(r'href="([^"]+)" rel="next"', found[LISTS[0]])
            found["next"] = (await made.get(way.replace("&amp;", "&"))).text
    return found


LISTS = (
    "/runs?since=9000d",
    "/runs?since=9000d&status=completed&order=oldest",
    "/runs?order=dearest",
    "/runs?tool=refund",
    "/runs?tag=plan%3Dfree",
    "/failures?since=9000d",
    "/stats?since=9000d",
)


@pytest.mark.acceptance("8.6-24")
async def test_lists_of_many_runs_are_as_large_as_those_of_some(tmp_path: Path) -> None:
    some = await lists_of(f"sqlite:///{tmp_path / 'some.db'}", 2_000)
    many = await lists_of(f"sqlite:///{tmp_path / 'many.db'}", 3_000)
    for path, page in many.items():
        rows = len(re.findall(r"<tr>\n<th scope=\"row\"", page))
        assert (rows == 50) is (path == "next" or path.startswith("/runs")), path
        assert len(page) < 40_000, path
        assert len(gzip.compress(page.encode())) < 5_000, path
        assert len(page) < 1.1 * len(some[path]), path
    shown = [re.findall(r"data-row[^>]*>([^<]+)<", many[path]) for path in (LISTS[0], "next")]
    assert not {*shown[0]} & {*shown[1]}
    assert "3,000 runs" in words(many[LISTS[0]])
