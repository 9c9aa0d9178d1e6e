"""A standby: what has come to it is shown, counts included, and nobody is told that its log can be followed."""

from collections.abc import Generator
from contextlib import aclosing

import httpx
import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import StoreIsStandby, StoreReadOnly
from steptrail.inspector import Access, inspector
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.http.inspector import live
from steptrail.interfaces.http.inspector.live import hints
from steptrail.testing import ScriptedModel
from tests.harness.postgres_server import PostgresServer
from tests.inspector.conftest import everything
from tests.inspector.test_live import never, sees, told
from tests.inspector.test_pages import words

AGENT = AgentBuilder("desk").with_model(ScriptedModel(["One.", "Two.", "Three."])).build()


@pytest.fixture(scope="module")
def url() -> Generator[str]:
    """The address of a standby with three runs, of which its primary had counted two."""
    with PostgresServer() as server:
        url = server.url(server.create_database())
        with Steptrail.open_sync(url) as trail:
            for session in ("a", "b"):
                trail.run(AGENT, "Hi", session=session)
            trail.views.wait()
            trail.run(AGENT, "Hi", session="c")
        server.become_standby()
        yield url


async def test_the_read_models_answer_as_far_as_the_primary_has_counted(url: str) -> None:
    async with Steptrail.open(url) as trail:
        for fresh in ("now", 5, None):
            page = await trail.views.runs(fresh=fresh)
            assert [row.stream for row in page.rows] == ["agent:b", "agent:a"]
            assert page.lag > 0
        assert (await trail.views.stats(fresh=None)).total.runs == 2
        assert await trail.views.lag() == page.lag


async def test_following_the_log_is_refused_and_so_is_a_run(url: str) -> None:
    async with Steptrail.open(url) as trail:
        with pytest.raises(StoreIsStandby, match=r"is a standby, .*: follow that"):
            await anext(trail.subscribe())
        with pytest.raises(StoreReadOnly):
            await trail.run(AGENT, "Hi", session="d")


async def test_the_inspector_shows_its_pages_and_their_tags_hold(url: str) -> None:
    async with Steptrail.open(url) as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            for page in ("/", "/runs", "/runs/c", "/inbox", "/failures", "/stats", "/runs?since=7d", "/health"):
                assert (await client.get(page)).status_code == 200, page
            assert "Counted to " in words((await client.get("/stats")).text)
            tag = (await client.get("/runs")).headers["etag"]
            assert (await client.get("/runs", headers={"if-none-match": tag})).status_code == 304


async def test_a_page_that_is_open_looks_at_every_beat(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.01)
    async with Steptrail.open(url) as trail, aclosing(hints(trail.store, sees(Access()), never)) as source:
        beats = [await told(source) for _ in range(3)]
    assert beats == [("beat", live.BEAT_SECONDS)] * 3


def test_the_command_line_tells_of_it(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words_of in (["runs"], ["stats"], ["show", "c"], ["why", "c"]):
        assert main([*words_of, "--store", url]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert main(["tail", "--store", url]) == 2
    assert "is a standby" in capsys.readouterr().err
