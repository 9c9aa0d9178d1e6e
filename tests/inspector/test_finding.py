"""Find in a run: what its events show is found, what is hidden is not, and a long run is looked through in parts."""

import re
from html import unescape
from pathlib import Path

import httpx
import pytest

from steptrail import Steptrail
from steptrail.domain.json_value import JsonValue
from steptrail.inspector import inspector
from steptrail.interfaces.http.inspector import finding
from tests.harness.hands import change_by_hand
from tests.inspector.conftest import Opened, everything
from tests.inspector.inspected import HOSTILE, desk
from tests.inspector.test_pages import words
from tests.inspector.test_security import of_acme

HITS = re.compile(r'<a href="/runs/[^"?#]+\?e=(\d+)#e\d+" data-row>')


async def found(client: httpx.AsyncClient, place: str, wanted: str) -> list[int]:
    """Return the events in which a text is found, over all parts of a run."""
    hits: list[int] = []
    page = await client.get(f"/find/{place}", params={"q": wanted})
    while True:
        assert page.status_code == 200
        hits += map(int, HITS.findall(page.text))
        more = re.findall(r'href="([^"]+)" rel="next">Look on', page.text)
        if not more:
            return hits
        page = await client.get(unescape(more[0]))


@pytest.mark.acceptance("8.6-28")
async def test_a_text_is_found_in_what_events_show_and_leads_to_them(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/find/answered?q=ATTIC")).text
        first = (await client.get(f"/runs/answered?e={HITS.findall(page)[0]}")).text
        assert "attic" in first
        said = words(page)
        assert re.search(r"\d events found, in events 1 to \d+ of \d+\. The events in which it stands Event Time", said)
        assert "/reply/parts/0/arguments/query attic" in said
        assert "<mark>attic</mark>" in page
        assert await found(client, "failed", "tool.execution.failed") == [17]
        assert await found(client, "failed", "ErrorPolicyCriterion")
        assert await found(client, "answered", "nowhere to be found") == []
        assert await found(client, "flow:review", "publish <b>it</b>?")
        assert await found(client, "answered", "(attic|cellar)") == []


async def test_the_field_is_on_the_page_of_a_run_and_keeps_what_it_shows(opened: Opened) -> None:
    async with opened() as client:
        run = (await client.get("/runs/failed/1?w=20&bars=errors")).text
        (form,) = re.findall(r'<form method="get" action="/find/failed/1" role="search">.*?</form>', run, re.S)
        page = (await client.get("/find/failed/1?w=20&bars=errors&q=KeyError")).text
        empty = words((await client.get("/find/failed?q=%20%20")).text)
        long = words((await client.get("/find/failed", params={"q": "x" * 201})).text)
    assert 'name="w" value="20"' in form
    assert 'name="bars" value="errors"' in form
    assert 'href="/runs/failed/1?w=20&amp;bars=errors&amp;e=17#e17"' in page
    assert 'name="q" value="KeyError"' in page
    assert "What is hidden there is not found." in empty
    assert "At most 200 characters" in long


async def test_what_masking_hides_is_never_found(opened: Opened) -> None:
    def mask(key: str, value: JsonValue) -> JsonValue:
        return "nothing" if key == "query" else value

    async with opened() as plain:
        for place, hidden in (("asks", "hunter2"), ("asks", "hunter"), ("answered", "sk-live-123456789")):
            assert await found(plain, place, hidden) == []
        for place in ("answered", "asks"):
            assert await found(plain, place, "password" if place == "asks" else "api_key")
        assert await found(plain, "answered", "attic")
    async with opened(mask_keys=["QUERY", "found"]) as masked, opened(mask=mask) as ours:
        assert await found(masked, "answered", "a box of tea") == []
        for client in (masked, ours):
            assert await found(client, "answered", "attic") == []
    async with opened(show="shape") as shape:
        for text in ("attic", "Where is the tea", "a box of tea", "Tea."):
            assert await found(shape, "answered", text) == [], text
        assert await found(shape, "answered", "inference.completed")


async def test_another_tenant_s_run_is_not_there(opened: Opened) -> None:
    async with opened(authorize=of_acme) as client:
        own, others = await client.get("/find/answered?q=tea"), await client.get("/find/failed?q=x")
        missing = await client.get("/find/nobody?q=x")
    assert own.status_code == 200
    assert (others.status_code, others.text) == (404, missing.text)


async def test_a_long_run_is_looked_through_in_parts_that_say_how_far_they_went(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as client:
        whole = await found(client, "answered", "search")
        for events, hits, part in ((7, 50, 3), (1, 50, 1), (9, 2, 4), (100, 1, 200)):
            monkeypatch.setattr(finding, "MOST_EVENTS", events)
            monkeypatch.setattr(finding, "MOST_HITS", hits)
            monkeypatch.setattr(finding, "_PART", part)
            assert await found(client, "answered", "search") == whole
        monkeypatch.setattr(finding, "MOST_HITS", 50)
        monkeypatch.setattr(finding, "MOST_EVENTS", 7)
        said = words((await client.get("/find/answered?q=nowhere&first=8")).text)
        assert "0 events found, in events 8 to 14 of 29. Look on from event 15" in said
        monkeypatch.setattr(finding, "MOST_EVENTS", 2_000)
        monkeypatch.setattr(finding, "_MOST_CHARACTERS", 1)
        monkeypatch.setattr(finding, "_PART", 3)
        assert "in events 1 to 1 of 29" in words((await client.get("/find/answered?q=nowhere")).text)
        assert await found(client, "answered", "search") == whole
    assert len(whole) > 3


async def test_an_event_that_cannot_be_read_is_named_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await trail.run(desk("Hello."), "Hi", session="hurt")
    change_by_hand(tmp_path / "runs.db", "UPDATE stored_events SET state = CAST('x' AS BLOB) WHERE version = 6")
    async with Steptrail.open(url, read_only=True) as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            page = words((await client.get("/find/hurt?q=execution")).text)
            hits = await found(client, "hurt", "execution")
            monkeypatch.setattr(finding, "MOST_HITS", 1)
            before = words((await client.get("/find/hurt?q=execution")).text)
            assert await found(client, "hurt", "execution") == hits
    assert "An event cannot be read, and was passed over: " in page
    assert "Look on from event 7" in page
    assert "cannot be read" not in before
    assert min(hits) < 6 < max(hits)
    assert 6 not in hits


@pytest.mark.parametrize(
    "wanted", [HOSTILE[:200], "<mark>", "\x00", "%00", "../../etc", "{{ 7*7 }}", "\x1b[31m", "\\", "("]
)
async def test_what_is_looked_for_is_only_a_text(opened: Opened, wanted: str) -> None:
    async with opened() as client:
        answer = await client.get("/find/hostile", params={"q": wanted})
    assert answer.status_code == 200
    assert answer.text.count("<script") == 2
    assert "<img" not in answer.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", answer.text)


async def test_what_is_shown_for_a_control_character_is_found(opened: Opened) -> None:
    async with opened() as client:
        assert await found(client, "hostile", r"\x1b[31mred")
        assert await found(client, "hostile", "\x1b[31mred")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("first=0", "in events 1 to"),
        ("first=-5", "in events 1 to"),
        ("first=x", "in events 1 to"),
        (f"first={10**14}", "in events 21 to 21 of 21"),
        (f"first={'9' * 400}", "in events 1 to"),
        ("first=%D9%A3", "in events 1 to"),
    ],
)
async def test_a_part_that_there_is_not_is_the_nearest(opened: Opened, query: str, said: str) -> None:
    async with opened() as client:
        answer = await client.get(f"/find/failed?q=zzz&{query}")
    assert answer.status_code == 200
    assert said in words(answer.text)
