"""A session that is erased is not there any more, for any address of it, also in the middle of making its page."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from steptrail import Steptrail
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.inspector import inspector
from steptrail.interfaces.http.inspector.answering import Answering
from steptrail.interfaces.python.lists import states_of
from steptrail.testing import call
from tests.inspector.conftest import everything
from tests.inspector.inspected import desk, family
from tests.inspector.test_actions import OURS, ana, forms

PLACES = (
    "/runs/gone",
    "/runs/gone/1",
    "/runs/gone?at=3&from=1&d=12&e=5&bars=slow",
    "/state/gone?at=3",
    "/find/gone?q=tea",
    "/why/gone",
    "/why/gone/1",
    "/body/gone/3",
    "/compare?a=gone&b=stays",
    "/compare?a=stays&b=gone",
)


@pytest.fixture
async def trail(tmp_path: Path) -> AsyncGenerator[Steptrail]:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as opened:
        for name in ("gone", "stays"):
            await opened.run(desk(call("search", query="tea"), call("look_up", key="x"), "no"), "Hi", session=name)
        yield opened


def browsing(trail: Steptrail, authorize: object = everything) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(inspector(trail, authorize=authorize))  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400")


@pytest.mark.acceptance("8.6-33")
async def test_every_address_of_an_erased_session_is_that_of_a_missing_one(
    trail: Steptrail, caplog: pytest.LogCaptureFixture
) -> None:
    async with browsing(trail, ana) as client:
        before = {place: await client.get(place) for place in PLACES}
        assert {answer.status_code for answer in before.values()} == {200}
        form = forms(before["/runs/gone"].text)[0]
        await trail.erase("gone", by="ana", reason="asked to")
        missing = await client.get("/runs/nobody")
        for place in PLACES:
            # Also for who has the page: it is not said to be as it was.
            for headers in ({}, {"if-none-match": before[place].headers.get("etag", "none")}):
                answer = await client.get(place, headers=headers)
                assert (answer.status_code, answer.text) == (404, missing.text), place
        act = await client.post(form.pop("action"), data={**form, "do": "requeue", "reason": "again"}, headers=OURS)
        assert (act.status_code, act.text) == (404, missing.text)
        await trail.views.wait(timeout=60)  # the beat of the inspector may be counting them anew just now
        lists = ("/", "/runs", "/runs?status=failed", "/runs?since=7d", "/runs?tool=look_up", "/failures", "/health")
        for place in lists:
            page = (await client.get(place)).text
            assert "/runs/gone" not in page, place
            assert ("/runs/stays" in page) is (place != "/health"), place
    assert [each for each in caplog.records if each.name == "steptrail.inspector"] == []


@pytest.mark.parametrize("place", PLACES[:-2])
async def test_a_session_that_is_erased_while_its_page_is_made_is_a_missing_one(
    trail: Steptrail, place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    named = Answering.row_named

    async def too_late(self: Answering, *given: object) -> object:
        row = await named(self, *given)  # type: ignore[arg-type]
        await trail.erase("gone", by="ana", reason="asked to")
        return row

    async with browsing(trail) as client:
        missing = await client.get("/runs/nobody")
        monkeypatch.setattr(Answering, "row_named", too_late)
        answer = await client.get(place)
    assert (answer.status_code, answer.text) == (404, missing.text)
    assert [each for each in caplog.records if each.name == "steptrail.inspector"] == []


async def test_an_erased_child_is_in_no_tree_and_the_page_above_it_stays(trail: Steptrail) -> None:
    await trail.run(family(), "Do it together", session="family")
    async with browsing(trail) as client:
        first = await client.get("/runs/family")
        child = first.text.split('href="/runs/child-')[1].split('"')[0]
        await trail.erase(f"child-{child}", by="ana", reason="asked to")
        page = await client.get("/runs/family", headers={"if-none-match": first.headers["etag"]})
    assert page.status_code == 200
    assert f'href="/runs/child-{child}"' not in page.text
    assert page.text.count('href="/runs/child-') == 1


async def test_a_list_passes_over_a_session_that_is_erased_while_it_is_made(trail: Steptrail) -> None:
    rows = await trail.store.index(IndexQuery())
    await trail.erase("gone", by="ana", reason="asked to")
    assert list(await states_of(trail.store, rows)) == ["agent:stays"]
