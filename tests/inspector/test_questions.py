"""A question on a page says what becomes of it and what an answer must be, and has buttons while it can be answered."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.inspector import Access, inspector
from steptrail.projections.questions import Question
from steptrail.testing import ManualClock, ScriptedModel, call, calls
from steptrail.tools import ApprovalRule
from steptrail.workflow import RunOptions, Workflow
from tests.inspector.test_actions import OURS
from tests.inspector.test_pages import words

HOUR = 3600.0
SECRET: dict[str, JsonValue] = {"cents": 5, "password": "hunter2"}


@tool(effect=ToolEffect.UNSAFE, approval=ApprovalRule(expires=HOUR))
def pay(cents: int, password: str = "") -> str:
    """Pay."""
    return f"{cents} paid, {len(password)}"


@asynccontextmanager
async def asked() -> AsyncGenerator[tuple[Steptrail, ManualClock, httpx.AsyncClient]]:
    """Yield a trail with a question of each kind that expires within an hour, its clock, and a client of its pages."""
    clock = ManualClock(datetime(2026, 5, 1, tzinfo=UTC))
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        script = ScriptedModel([call("pay", **SECRET), "paid"])
        await trail.run(AgentBuilder("cashier").with_model(script).with_tools(pay).build(), "Pay", session="agent")
        await trail.run(Workflow("w").tool("pay", pay, args={"cents": 5}).build(), session="tool")
        for then in ("fail", "default", "skip"):
            default = "yes" if then == "default" else None
            flow = Workflow("w").human("ask", prompt="Go?", expires=HOUR, on_timeout=then, default=default).build()
            await trail.run(flow, session=then)
        held = RunOptions(pause_before=("only",), step_timeout=HOUR)
        await trail.run(Workflow("w").noop("only").build(), session="held", options=held)
        app = inspector(trail, authorize=lambda _: Access(may_act=True, user="ana"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8400") as client:
            yield trail, clock, client


THEN: Mapping[str, str] = {
    "agent": "it is denied, and the call does not run",
    "flow:tool": "the node fails",
    "flow:fail": "the node fails",
    "flow:default": "the default is taken as the answer",
    "flow:skip": "the run goes on without an answer",
    "flow:held": "the run fails",
}


async def test_a_question_says_what_becomes_of_it_when_nobody_answers() -> None:
    async with asked() as (_, _, client):
        said = {name: words((await client.get(f"/runs/{name}")).text) for name in THEN}
    for name, then in THEN.items():
        assert f"without an answer {then}." in said[name]


async def test_a_question_that_has_expired_has_no_buttons_and_the_run_says_how_it_goes_on() -> None:
    async with asked() as (trail, clock, client):
        clock.advance(HOUR + 1)
        pages = {name: (await client.get(f"/runs/{name}")).text for name in THEN}
        why = (await client.get("/why/agent")).json()
        assert len(await trail.due()) == len(THEN)
    for name, then in THEN.items():
        assert '<article class="card' not in pages[name]
        said = words(pages[name])
        assert "Waiting to be gone on with, as nobody came in time" in said
        assert then in said
        assert f"Next steptrail resume {'AGENT' if name == 'agent' else 'WORKFLOW'} {name}" in said
    assert "hunter2" not in pages["agent"]
    assert "hunter2" not in str(why)


@pytest.mark.parametrize("name", [name.removeprefix("flow:") for name in THEN if name != "agent"])
async def test_why_says_that_the_time_of_a_question_of_a_workflow_has_passed(name: str) -> None:
    async with asked() as (trail, clock, _):
        assert (await trail.flow(name).why()).verdict.endswith(" until 2026-05-01 01:00:00 UTC; nothing else can run")
        clock.advance(HOUR + 1)
        verdict = (await trail.flow(name).why()).verdict
    assert verdict.endswith(" until 2026-05-01 01:00:00 UTC, which has passed: it can go on")


async def test_a_run_that_was_answered_says_that_nobody_goes_on_with_it_yet() -> None:
    async with asked() as (trail, _, client):
        await trail.flow("fail").answer("ask", approved=True, by="ana")
        said = words((await client.get("/runs/flow:fail")).text)
    assert "▶ in progress Answered, waiting for a worker since 2026-05-01 00:00:00 UTC" in said
    assert "owner no process runs it" in said


async def test_a_question_for_data_shows_what_the_data_must_fit() -> None:
    schema = {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}, "required": ["zip"]}
    flow = Workflow("w").human("ask", type="input", prompt="Where?", schema=schema).build()
    async with asked() as (trail, _, client):
        await trail.run(flow, session="data")
        pages = [words((await client.get(page)).text) for page in ("/runs/flow:data", "/inbox")]
    for said in pages:
        assert '"pattern": "^[0-9]{5}$"' in said.partition("What the data must fit")[2]


async def test_no_question_of_a_run_is_compared_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(one: Question, other: object) -> bool:
        raise AssertionError((one, other))

    async with asked() as (trail, _, client):
        model = ScriptedModel([calls(*[("pay", SECRET)] * 3)])
        await trail.run(AgentBuilder("cashier").with_model(model).with_tools(pay).build(), "Pay", session="three")
        monkeypatch.setattr(Question, "__eq__", refused)
        assert (await client.get("/runs/three")).status_code == 200


async def test_of_many_questions_of_one_run_a_page_shows_some_and_leads_to_all() -> None:
    async with asked() as (trail, _, client):
        model = ScriptedModel([calls(*[("pay", {"cents": cents}) for cents in range(120)])])
        await trail.run(AgentBuilder("cashier").with_model(model).with_tools(pay).build(), "Pay", session="many")
        inbox = (await client.get("/inbox")).text
        assert len(re.findall(r'<article class="card asks"', inbox)) == 10 + len(THEN)
        assert re.findall(r'<a href="/runs/many">(.+ asks)</a>', inbox) == ["110 more that many asks"]
        seen, way, page = list[str](), "/runs/many", ""
        while way:
            page = (await client.get(way)).text
            shown = re.findall(r'name="to" value="([^"]+)"', page)
            assert len(shown) <= 50
            seen += shown
            way = "".join(re.findall(r'<a href="([^"]+)">Later questions</a>', page))
        assert seen == [f"many:1:1:{position}" for position in range(120)]
        assert "Questions 101 to 120 of 120" in page
        assert "/runs/many?asks=51#asks" in page


async def test_an_answer_that_is_refused_comes_back_to_its_question_among_many() -> None:
    async with asked() as (trail, _, client):
        model = ScriptedModel([calls(*[("pay", {"cents": cents}) for cents in range(120)])])
        await trail.run(AgentBuilder("cashier").with_model(model).with_tools(pay).build(), "Pay", session="many")
        page = (await client.get("/runs/many?asks=101")).text
        card = page.partition("<article")[2].partition("</article>")[0]
        form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', card))
        said = {**form, "do": "maybe", "reason": "I am not sure"}
        answer = await client.post("/act/many", data=said, headers=OURS)
        assert answer.status_code == 422
        assert "I am not sure" in answer.text
        assert f'name="to" value="{form["to"]}"' in answer.text
