"""The stored conversation and the stored run, when the store cannot be read or has them no more."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from steptrail import Steptrail
from steptrail.broadcasting.asgi import event_stream
from steptrail.domain.errors import StoreAway
from steptrail.interfaces.python.flow import Flow
from steptrail.interfaces.python.session import Session
from steptrail.runtime.kernel.environment import Environment
from steptrail.ui import ui_conversation, ui_flow
from steptrail.workflow import Workflow
from tests.harness.beside_the_loop import beside_the_loop
from tests.harness.hands import change_by_hand
from tests.processes.agents.interposed import Interposed
from tests.web.served import agent_with

PATHS = ["/sessions/told/conversation", "/flows/told/run"]
EVENTS = ["/sessions/told/events", "/flows/told/events"]


async def both(url: str) -> None:
    async with Steptrail.open(url) as trail:
        await both_in(trail)


async def both_in(trail: Steptrail) -> None:
    flow = Workflow("one").function("say", lambda envelope: "Tea.", output="said").build()
    await trail.run(agent_with(), "Where is the tea?", session="told")
    await trail.run(flow, "tea", session="told")


async def fetched(trail: Steptrail, path: str) -> tuple[int, Any]:
    transport = httpx.ASGITransport(event_stream(trail, authorize=lambda _, __: True))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answer = await client.get(path)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("path", PATHS)
async def test_a_damaged_record_is_a_fault_of_the_store_and_is_named_in_the_log(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await both(url)
    change_by_hand(tmp_path / "runs.db", "UPDATE stored_events SET state = CAST('x' AS BLOB) WHERE version = 3")
    async with Steptrail.open(url) as trail:
        assert await fetched(trail, path) == (503, {"error": "service unavailable"})
    assert "3" in caplog.text


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_shown_is_made_while_the_loop_goes_on(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await both(url)
    monkeypatch.setattr("steptrail.interfaces.http.event_streams.ui_conversation", beside_the_loop(ui_conversation))
    monkeypatch.setattr("steptrail.projections.ui.flow.ui_flow", beside_the_loop(ui_flow))
    async with Steptrail.open(url) as trail:
        status, shown = await fetched(trail, path)
    assert (status, shown["status"]) == (200, "completed")


@pytest.mark.parametrize("path", PATHS)
async def test_what_many_pages_ask_for_at_once_is_made_once_and_comes_to_those_that_stay(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await both(url)
    made, going_on = list[str](), threading.Event()

    def counted(make: Any) -> Any:
        def making(*given: Any) -> Any:
            made.append(path)
            assert going_on.wait(60)
            return make(*given)

        return making

    monkeypatch.setattr("steptrail.interfaces.http.event_streams.ui_conversation", counted(ui_conversation))
    monkeypatch.setattr("steptrail.projections.ui.flow.ui_flow", counted(ui_flow))
    async with Steptrail.open(url) as trail:
        let_in, looked = 0, trail.store.erasure

        async def counting(stream: str) -> Any:
            nonlocal let_in
            found = await looked(stream)
            let_in += 1  # and before anybody else has a turn this one asks for what it came for
            return found

        monkeypatch.setattr(trail.store, "erasure", counting)
        transport = httpx.ASGITransport(event_stream(trail, authorize=lambda _, __: True))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            pages = [asyncio.create_task(client.get(path)) for _ in range(10)]
            while let_in < 10 or not made:
                await asyncio.sleep(0)
            pages[0].cancel()
            going_on.set()
            answers = await asyncio.gather(*pages[1:])
            assert {answer.status_code for answer in answers} == {200}
            assert len({answer.content for answer in answers}) == 1
            assert len(made) == 1
            assert (await client.get(path)).json() == answers[0].json()
            assert len(made) == 2  # nothing is kept


@pytest.mark.parametrize("path", [*PATHS, *EVENTS])
async def test_a_store_that_is_closed_is_a_fault_of_the_store(tmp_path: Path, path: str) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await both(url)
    async with Steptrail.open(url) as trail:
        pass
    assert await fetched(trail, path) == (503, {"error": "service unavailable"})


@pytest.mark.parametrize("path", EVENTS)
async def test_a_stream_whose_store_goes_away_ends_in_order_and_the_log_has_one_line_of_it(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Away(Interposed):
        async def wait_past(self, position: int, *, timeout: float) -> None:
            del position, timeout
            raise StoreAway("the server of the store is away")

    async with Steptrail(Environment(store=Away())) as trail:
        await both_in(trail)
        transport = httpx.ASGITransport(event_stream(trail, authorize=lambda _, __: True))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            assert '"completed"' in (await client.get(path)).text
    (told,) = caplog.messages
    assert told.endswith("the server of the store is away")
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("path", [*PATHS, *EVENTS])
async def test_a_store_that_stays_away_fills_no_log_however_often_it_is_asked(
    tmp_path: Path, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await both(url)
    for _ in range(2):  # the second time it is told as much of as the first time
        caplog.clear()
        async with Steptrail.open(url) as trail:
            assert (await fetched(trail, PATHS[0]))[0] == 200
        for _ in range(16):
            assert (await fetched(trail, path))[0] == 503
        assert len(caplog.messages) == 5


@pytest.mark.parametrize("path", [*PATHS, *EVENTS])
async def test_what_is_erased_is_not_there(tmp_path: Path, path: str) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await both(url)
    async with Steptrail.open(url) as trail:
        await trail.erase("told", by="ana", reason="asked to")
        await trail.erase("flow:told", by="ana", reason="asked to")
        assert await fetched(trail, path) == (404, {"error": "not found"})


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_erased_while_it_is_asked_for_is_not_there(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    await both(url)

    def erased_before(read: Any) -> Any:
        async def reading(self: Any, *given: Any) -> Any:
            await trail.erase("told" if isinstance(self, Session) else "flow:told", by="ana", reason="asked to")
            return await read(self, *given)

        return reading

    monkeypatch.setattr(Session, "state", erased_before(Session.state))
    monkeypatch.setattr(Flow, "history", erased_before(Flow.history))
    async with Steptrail.open(url) as trail:
        assert await fetched(trail, path) == (404, {"error": "not found"})
