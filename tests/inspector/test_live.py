"""Open pages are told what has grown, and ask again for no more than that."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from sse_starlette import ServerSentEvent
from starlette.exceptions import HTTPException

from steptrail import Steptrail
from steptrail.inspector import Access, inspector
from steptrail.interfaces.http.inspector import live
from steptrail.interfaces.http.inspector.live import hints
from steptrail.testing import ManualClock, call
from tests.inspector.conftest import Opened, everything
from tests.inspector.inspected import desk, family


def sees(access: Access) -> Callable[[], Awaitable[Access | None]]:
    async def may_see() -> Access | None:
        return access

    return may_see


async def never() -> None:
    await asyncio.Event().wait()


async def told(source: AsyncGenerator[ServerSentEvent]) -> tuple[str | None, Any]:
    each = await anext(source)
    assert each.id is None
    return each.event, json.loads(str(each.data))


async def test_a_hint_names_what_has_grown_since_the_one_before(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail, Steptrail.open(url, read_only=True) as reader:
        await trail.run(desk("One."), "Hi", session="before")
        async with aclosing(hints(reader.store, sees(Access()), never)) as source:
            assert await told(source) == ("beat", live.BEAT_SECONDS)
            await trail.run(desk("Two."), "Hi", session="a")
            event, said = await told(source)
            version = (await trail.session("a").state()).version
            while said["streams"]["agent:a"] < version:
                event, said = await told(source)
            assert (event, said) == (None, {"streams": {"agent:a": version}})
        async with aclosing(hints(reader.store, sees(Access()), never)) as again:
            assert await told(again) == ("beat", live.BEAT_SECONDS)


async def test_a_tenant_is_told_of_its_own_runs_alone(tmp_path: Path) -> None:
    heard = set[str]()
    async with (
        Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail,
        aclosing(hints(trail.store, sees(Access(tenant="acme")), never)) as source,
    ):
        await anext(source)
        for tenant in ("other", "acme"):
            await trail.run(family(), "Go", session=tenant, metadata={"tenant": tenant})
        own = [row.stream for row in await trail.runs() if row.session_id != "other"]
        below = [each.run.stream for _, each in (await trail.tree("acme")).walk()]
        while heard < set(below):
            event, said = await told(source)
            heard |= set() if event == "beat" else said["streams"].keys()
    assert sorted(heard) == sorted(below)
    assert len(own) > len(below) == 3


async def test_a_silent_line_beats_and_ends_with_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.01)
    trail = Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}")
    async with aclosing(hints(trail.store, sees(Access()), never)) as source:
        assert [(await told(source))[0] for _ in range(3)] == ["beat"] * 3
        await trail.close()
        assert [each async for each in source][1:] == []


@pytest.mark.parametrize("answer", [None, HTTPException(401), RuntimeError("the users are away")])
async def test_a_line_ends_when_its_caller_may_see_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Exception | None
) -> None:
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.01)
    answers: list[Access | Exception | None] = [Access(), Access(tenant="acme"), answer]

    async def authorize(_: object) -> Access | None:
        said = answers.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=authorize))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client, asyncio.timeout(60):
            line = await client.get("/live")  # returns when the line has ended
    assert (line.status_code, line.text.count("event: beat"), answers) == (200, 1, [])


@pytest.mark.parametrize("access", [Access(), Access(tenant="acme")])
async def test_a_line_beats_however_much_is_stored_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, access: Access
) -> None:
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.5)

    async def busy() -> None:
        for number in count():
            await trail.run(desk("One."), "Hi", session=f"busy-{number}", metadata={"tenant": "other"})

    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        writing = asyncio.create_task(busy())
        async with asyncio.timeout(30), aclosing(hints(trail.store, sees(access), never)) as source:
            heard = [(await told(source))[0]]
            while heard.count("beat") < 3:
                heard.append((await told(source))[0])
        writing.cancel()
        await asyncio.wait({writing})
    assert (None in heard) is (access.tenant is None)


async def test_a_page_that_has_not_changed_is_not_sent_again(opened: Opened) -> None:
    async with opened() as client:
        for path in ("/", "/runs", "/inbox", "/runs/failed"):
            first = await client.get(path)
            again = await client.get(path, headers={"if-none-match": first.headers["etag"]})
            if again.status_code == 200:  # another minute has begun
                again = await client.get(path, headers={"if-none-match": again.headers["etag"]})
            assert (again.status_code, again.text) == (304, "")
            packed = await client.get(path, headers={"if-none-match": f"W/{again.request.headers['if-none-match']}"})
            assert packed.status_code == 304 or packed.headers["etag"] != again.request.headers["if-none-match"]
            other = await client.get(f"{path}?e=3", headers={"if-none-match": first.headers["etag"]})
            assert other.status_code == 200
        for nothing in ("", "*", '""', 'W/"x"', "x" * 5_000):
            assert (await client.get("/runs/failed", headers={"if-none-match": nothing})).status_code == 200
    async with opened(authorize=lambda connection: None) as nobody:  # pyright: ignore[reportUnknownLambdaType]
        assert (await nobody.get("/live")).status_code == 404


async def test_a_page_that_has_changed_is_sent_again(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("One."), "Hi", session="grows")
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            before = {path: await client.get(path) for path in ("/", "/runs", "/runs/grows", "/runs/grows?at=3")}
            await trail.run(desk("Two."), "Again", session="grows")
            for path, page in before.items():
                after = await client.get(path, headers={"if-none-match": page.headers["etag"]})
                assert after.status_code == 200
                assert after.headers["etag"] != page.headers["etag"]
                assert after.text != page.text


@pytest.mark.parametrize("path", ["/", "/runs", "/inbox"])
async def test_the_tag_of_a_tenants_list_tells_nothing_of_what_others_do(tmp_path: Path, path: str) -> None:
    asks = desk(*[call("refund", order="A-7", cents=5)] * 3)
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}", clock=ManualClock()) as trail:
        await trail.run(asks, "Hi", session="mine", metadata={"tenant": "acme"})
        transport = httpx.ASGITransport(inspector(trail, authorize=lambda _: Access(tenant="acme")))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            first = await client.get(path)
            await trail.run(asks, "Hi", session="of-others", metadata={"tenant": "other"})
            same = await client.get(path, headers={"if-none-match": first.headers["etag"]})
            await trail.run(asks, "Hi", session="mine-too", metadata={"tenant": "acme"})
            grown = await client.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (same.status_code, grown.status_code) == (304, 200)
    assert "mine-too" in grown.text
    assert "of-others" not in grown.text
