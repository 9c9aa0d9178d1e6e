"""Verdicts, choices and data are said on pages, and who comes second is told who was first."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from steptrail import Steptrail
from steptrail.inspector import inspector
from steptrail.workflow import RunOptions, Workflow
from tests.inspector.inspected import desk
from tests.inspector.test_actions import ORIGIN, act, ana, buttons, forms, heard, park, post, typed_in
from tests.inspector.test_pages import words
from tests.runner.kit import trail_of


async def test_a_call_whose_end_nobody_knows_is_settled_from_its_page(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    for name in ("told", "done", "broken"):
        await park(store, name)
    async with Steptrail.open(store) as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=ana))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            assert buttons((await client.get("/runs/told")).text)[:4] == ["tell", "failed", "rerun", "done"]
            answers = [
                await act(client, "/runs/told", "tell"),
                await act(client, "/runs/broken", "done", data="{"),
                await act(client, "/runs/done", "done", data='{"sent": 1}'),
            ]
        assert [each.status_code for each in answers] == [303, 422, 303]
        (call_of,) = (await trail.session("done").state()).tool_executions
        assert call_of.result == {"sent": 1}


async def test_whose_verdict_comes_second_is_told_who_has_settled_the_call(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'parked.db'}"
    flow = Workflow("one").function("r", lambda _: None).build()
    await park(store, "parked")
    async with Steptrail.open(store) as trail:
        await trail.run(flow, "x", session="held", options=RunOptions(pause_before=("r",)))
        transport = httpx.ASGITransport(inspector(trail, authorize=ana))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            forms_of = {name: forms((await client.get(f"/runs/{name}")).text)[0] for name in ("parked", "flow:held")}
            (parked,) = (await trail.session("parked").state()).tool_executions
            await trail.session("parked").settle(str(parked.effect_id), "completed", by="ben", result={"sent": 1})
            await trail.flow("held").step("r", "continue", by="ben")
            late = [
                await post(client, forms_of["parked"], do="done", data="1"),
                await post(client, forms_of["flow:held"], do="abort"),
            ]
    assert [each.status_code for each in late] == [409, 409]
    assert "This is not asked any more: ben has settled it already, at " in words(late[0].text)
    assert "This is not asked any more: ben has answered it already, at " in words(late[1].text)


async def test_a_choice_and_data_answer_a_workflow_and_a_held_visit_goes_on(tmp_path: Path) -> None:
    flow = (
        Workflow("ask", result="colour")
        .human("colour", type="choice", prompt="Which?", options=["red", "<b>blue</b>"], output="colour")
        .human("size", type="input", prompt="How large?", output="size")
        .chain("colour", "size")
        .build()
    )
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(flow, "x", session="asked")
        transport = httpx.ASGITransport(inspector(trail, authorize=ana))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            chosen = await act(client, "/runs/flow:asked", "choice:<b>blue</b>")
            await trail.flow("asked").resume(flow)
            sized = await act(client, "/runs/flow:asked", "data", data='{"cm": 4}')
        said = await heard(trail, "flow:asked", "human.answered.v1")
    assert [chosen.status_code, sized.status_code] == [303, 303]
    assert [each.choice for each in said] == ["<b>blue</b>", None]
    assert said[1].data == {"cm": 4}


async def test_who_goes_in_the_middle_of_a_form_is_no_fault_of_the_inspector(caplog: pytest.LogCaptureFixture) -> None:
    coming: list[Any] = [{"type": "http.request", "body": b"do=", "more_body": True}, {"type": "http.disconnect"}]
    headers = [(b"sec-fetch-site", b"same-origin"), (b"content-type", b"application/x-www-form-urlencoded")]
    scope = {"type": "http", "method": "POST", "path": "/act/s", "query_string": b"", "headers": headers}

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        assert message["type"] != "http.response.start" or message["status"] == 400

    async with trail_of() as trail:
        await trail.start(desk("Hello."), "Hi", session="s")
        await inspector(trail, authorize=ana)(scope, receive, send)
    assert coming == []
    assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    "option", ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f4bb", "a\u200f"]
)
async def test_what_joins_letters_and_signs_is_no_hindrance_to_an_answer(option: str) -> None:
    flow = Workflow("ask").human("which", type="choice", prompt="Which?", options=["red", option], output="which")
    async with trail_of() as trail:
        await trail.run(flow.build(), session="asked")
        transport = httpx.ASGITransport(inspector(trail, authorize=ana))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            page = (await client.get("/runs/flow:asked")).text
            refused = await act(client, "/runs/flow:asked", "choice:blue", reason=option)
            chosen = await act(client, "/runs/flow:asked", buttons(page)[1], reason=option)
        (said,) = await heard(trail, "flow:asked", "human.answered.v1")
    assert (refused.status_code, typed_in(refused.text)) == (422, [option])
    assert (chosen.status_code, said.choice) == (303, option)
