"""What somebody says to a run from its page: when it is taken, when it is not, and what is kept of it."""

import asyncio
import re
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import ToolExecutionCompleted
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.infrastructure.store.opening import open_store
from steptrail.inspector import Access, inspector
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import OnUnknown
from steptrail.workflow import Rule, RunOptions, Workflow
from tests.inspector.conftest import everything
from tests.inspector.inspected import WANTED, desk
from tests.inspector.test_pages import words
from tests.runner.kit import Crash, crash_at

ORIGIN = "http://127.0.0.1:8400"
OURS = {"origin": ORIGIN}


def ana(request: object) -> Access:
    assert request is not None
    return Access(may_act=True, user="ana")


def ben(request: object) -> Access:
    assert request is not None
    return Access(may_act=True, user="ben")


def of_acme(request: object) -> Access:
    assert request is not None
    return Access(tenant="acme", may_act=True)


def of_another(request: object) -> Access:
    assert request is not None
    return Access(tenant="other")


Clients: TypeAlias = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
async def trail(inspected: Path, tmp_path: Path) -> AsyncGenerator[Steptrail]:
    """A copy of the store with a run of each kind."""
    place = tmp_path / "runs.db"
    for each in inspected.parent.glob(f"{inspected.name}*"):
        if each.is_file():
            shutil.copy(each, place.with_name(each.name))
    async with Steptrail.open(f"sqlite:///{place}", create=False) as opened:
        yield opened


@pytest.fixture
def clients(trail: Steptrail) -> Clients:
    """Browsers of somebody each."""

    @asynccontextmanager
    async def client(authorize: Any = ana, **settings: Any) -> AsyncGenerator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(inspector(trail, authorize=authorize, **settings))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as made:
            yield made

    return client


def forms(page: str) -> list[dict[str, str]]:
    """Return the forms that change something, with their hidden fields and the address that takes them."""
    found: list[dict[str, str]] = []
    for action, inside in re.findall(r'<form class="act" method="post" action="([^"]+)">(.*?)</form>', page, re.S):
        hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', inside)
        found.append({"action": action, **{name: unescape(value) for name, value in hidden}})
    return found


def buttons(page: str) -> list[str]:
    """Return what the buttons send."""
    return [unescape(value) for value in re.findall(r'<button name="do" value="([^"]+)">', page)]


async def act(client: httpx.AsyncClient, page: str, do: str, **said: str) -> httpx.Response:
    """Fill in the first form of a page and send it."""
    form = forms((await client.get(page)).text)[0]
    return await post(client, form, do=do, **said)


async def post(client: httpx.AsyncClient, form: dict[str, str], **said: str) -> httpx.Response:
    given = {"reason": "it is right", **form, **said}
    return await client.post(given.pop("action"), data=given, headers=OURS)


async def heard(trail: Steptrail, name: str, kind: str) -> list[Any]:
    """Return the events of a type that a run has."""
    return [record.event for record in await trail.handle(name).history(types=[kind])]


@pytest.mark.acceptance("8.6-11")
async def test_an_approval_is_answered_from_its_page_and_kept_with_who_and_why(
    trail: Steptrail, clients: Clients
) -> None:
    async with clients() as client:
        page = (await client.get("/runs/asks")).text
        answer = await act(client, "/runs/asks", "approve", reason=" the order is hers ")
        after = (await client.get(answer.headers["location"])).text
    (granted,) = await heard(trail, "asks", "approval.granted.v1")
    assert buttons(page)[:2] == ["deny", "approve"]
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/asks")
    assert (granted.by, granted.reason) == ("inspector:ana", "the order is hers")
    assert buttons(after) == ["pause", "stop"]
    assert "steptrail resume" in words(after)


async def test_a_held_node_that_chooses_is_skipped_to_the_node_that_a_button_names(
    trail: Steptrail, clients: Clients
) -> None:
    flow = Workflow("w").rule_router("r", [Rule("vars.x", to="a")], default="b").noop("a").noop("b").edge("r", "a", "b")
    await trail.run(flow.build(), session="held", options=RunOptions(pause_before=("r",)))
    async with clients() as client:
        page = (await client.get("/runs/flow:held")).text
        answer = await act(client, "/runs/flow:held", "skip:a")
    assert buttons(page)[:4] == ["abort", "skip:a", "skip:b", "continue"]
    assert answer.status_code == 303
    (said,) = await heard(trail, "flow:held", "step.answered.v1")
    assert (said.action, said.targets) == ("skip", ("a",))


async def test_a_denial_is_told_with_its_reason(trail: Steptrail, clients: Clients) -> None:
    async with clients() as client:
        assert (await act(client, "/runs/asks", "deny", reason="not hers")).status_code == 303
    (denied,) = await heard(trail, "asks", "approval.denied.v1")
    assert (denied.by, denied.reason) == ("inspector:ana", "not hers")


async def test_a_workflow_is_answered_from_the_inbox(trail: Steptrail, clients: Clients) -> None:
    async with clients() as client:
        inbox = (await client.get("/inbox")).text
        (form,) = [each for each in forms(inbox) if each["action"] == "/act/flow%3Areview"]
        answer = await post(client, form, do="reject", reason="not yet")
    (said,) = await heard(trail, "flow:review", "human.answered.v1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/flow%3Areview")
    assert (said.by, said.approved, said.notes) == ("inspector:ana", False, "not yet")


async def test_a_run_is_paused_and_stopped_and_a_second_click_is_the_same(trail: Steptrail, clients: Clients) -> None:
    async with clients() as client:
        page = (await client.get("/runs/crashed")).text
        form = forms(page)[-1]
        clicks = [await post(client, form, do="pause", reason="look at it"), await post(client, form, do="pause")]
        paused = words((await client.get("/runs/crashed")).text)
        stopped = await act(client, "/runs/crashed", "stop", reason="it is over")
    assert [each.status_code for each in (*clicks, stopped)] == [303] * 3
    assert "by inspector:ana: look at it" in paused
    assert len(await heard(trail, "crashed", "pause.requested.v1")) == 1
    (asked,) = await heard(trail, "crashed", "stop.requested.v1")
    assert (asked.by, asked.reason) == ("inspector:ana", "it is over")
    assert not (await trail.session("crashed").state()).is_open


async def test_who_has_a_long_name_can_pause_a_run_again(trail: Steptrail, clients: Clients) -> None:
    def long(request: object) -> Access:
        return Access(may_act=True, user="CN=ana," + "OU=desk," * 40)

    async with clients(authorize=long) as client:
        for do in ("pause", "unpause", "pause"):
            assert (await act(client, "/runs/crashed", do)).status_code == 303
            assert (await trail.session("crashed").state()).status is (
                ExecutionStatus.PAUSED if do == "pause" else ExecutionStatus.PENDING
            )


@pytest.mark.acceptance("8.6-25")
async def test_a_paused_run_and_one_that_failed_are_handed_to_a_worker_from_their_pages(
    trail: Steptrail, clients: Clients
) -> None:
    await trail.session("crashed").pause(by="ben", reason="not now")
    async with clients() as client:
        for name, do in (("crashed", "unpause"), ("failed", "requeue")):
            page = (await client.get(f"/runs/{name}")).text
            assert do in buttons(page), name
            form = forms(page)[0]
            clicks = [await post(client, dict(form), do=do, reason="it is mended") for _ in range(2)]
            # A second click is the same, also where the first one has begun an execution.
            assert [each.status_code for each in clicks] == [303, 303], name
            assert do not in buttons((await client.get(f"/runs/{name}")).text)
            assert (await post(client, {**form, "shown": "9"}, do=do)).status_code == 409
    pending = {row.stream: row.due for row in await trail.due() if row.status is ExecutionStatus.PENDING}
    assert {"agent:crashed", "agent:failed"} <= pending.keys()
    assert (await trail.session("failed").state()).fold.executions == 2
    (lifted,) = await heard(trail, "crashed", "pause.lifted.v1")
    assert (lifted.by, lifted.reason) == ("inspector:ana", "it is mended")


@pytest.mark.acceptance("8.6-26")
async def test_a_session_is_forked_from_its_page_and_a_second_click_leads_to_the_same_fork(
    trail: Steptrail, clients: Clients
) -> None:
    async with clients() as client:
        form = forms((await client.get("/runs/failed")).text)[-1]
        click = partial(post, client, form, do="fork", reason="try another way")
        clicks = [*await asyncio.gather(click(), click()), await click()]
        assert [each.status_code for each in clicks] == [303, 303, 303]
        (where,) = {each.headers["location"] for each in clicks}
        assert "forked" in words((await client.get(where)).text)
        (within_a_step, *_) = await trail.session("failed").history(types=["inference.completed.v1"])
        refused = {"x": 422, "-1": 422, "9" * 20: 422, "999999": 409, str(within_a_step.version): 409}
        for after, status in refused.items():
            assert (await post(client, dict(form), do="fork", after=after)).status_code == status, after
    fork = await trail.session(where.removeprefix("/runs/")).state()
    assert (fork.version, len(fork.messages)) == (1, len((await trail.session("failed").state()).messages))


@pytest.mark.acceptance("8.6-12")
async def test_of_two_answers_at_once_one_is_taken_and_the_other_is_told_so(trail: Steptrail, clients: Clients) -> None:
    async with clients(ana) as one, clients(ben) as other:
        first, second = [forms((await each.get("/runs/asks")).text)[0] for each in (one, other)]
        answers = await asyncio.gather(post(one, first, do="approve"), post(other, second, do="deny"))
    granted, denied = [await heard(trail, "asks", f"approval.{how}.v1") for how in ("granted", "denied")]
    assert sorted(each.status_code for each in answers) == [303, 409]
    assert len(granted) + len(denied) == 1
    assert "Nothing was done" in next(each.text for each in answers if each.status_code == 409)


async def test_of_two_tabs_of_one_browser_the_second_is_told_that_the_first_has_answered(
    trail: Steptrail, clients: Clients
) -> None:
    async with clients() as client:
        one, other = [forms((await client.get("/runs/asks")).text)[0] for _ in range(2)]
        assert one == other
        answers = [await post(client, dict(one), do="approve"), await post(client, dict(other), do="deny")]
        late = await post(client, dict(other), do="approve")
    assert [each.status_code for each in (*answers, late)] == [303, 409, 409]
    assert "Nothing was done" in words(answers[1].text)
    assert 'href="/runs/asks"' in answers[1].text
    assert [len(await heard(trail, "asks", f"approval.{how}.v1")) for how in ("granted", "denied")] == [1, 0]


@pytest.mark.acceptance("8.6-20")
async def test_what_is_asked_anew_or_was_answered_is_not_answered_by_an_older_page(
    trail: Steptrail, clients: Clients
) -> None:
    async with clients() as client:
        form = forms((await client.get("/runs/asks")).text)[0]
        for changed in ({"shown": "0" * 64}, {"to": "asks:9:9:9"}):
            assert (await post(client, {**form, **changed}, do="approve")).status_code == 409, changed
        assert await heard(trail, "asks", "approval.granted.v1") == []
        steer = forms((await client.get("/runs/asks")).text)[-1]
        assert (await post(client, {**steer, "shown": "9"}, do="stop")).status_code == 409
        assert (await trail.session("asks").state()).status is ExecutionStatus.WAITING


@pytest.mark.acceptance("8.6-13")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {"origin": "http://["},
        {"origin": "http://127.0.0.1:8401"},
        {"origin": "http://127.0.0.1:8400.evil.example"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"origin": ORIGIN, "sec-fetch-site": "same-site"},
        {"origin": ORIGIN, "sec-fetch-site": "none"},
    ],
)
async def test_a_form_of_another_site_does_nothing(trail: Steptrail, clients: Clients, headers: dict[str, str]) -> None:
    async with clients() as client:
        form = {**forms((await client.get("/runs/asks")).text)[0], "do": "approve", "reason": "mine"}
        answer = await client.post(form.pop("action"), data=form, headers=headers)
    assert answer.status_code == 403
    assert await heard(trail, "asks", "approval.granted.v1") == []


async def test_a_form_without_the_cookie_of_its_page_does_nothing(trail: Steptrail, clients: Clients) -> None:
    async with clients() as one, clients() as other:
        form = {**forms((await one.get("/runs/asks")).text)[0], "do": "approve"}
        await other.get("/runs/asks")
        assert (await post(other, dict(form))).status_code == 403
        one.cookies.clear()
        assert (await post(one, dict(form))).status_code == 403
        one.cookies.set("steptrail_form", "short")
        assert (await post(one, dict(form))).status_code == 403
    assert await heard(trail, "asks", "approval.granted.v1") == []


async def test_a_page_of_one_user_does_nothing_for_the_next_who_comes_with_the_same_browser(
    trail: Steptrail, clients: Clients
) -> None:
    async with clients(ana) as one, clients(ben) as other:
        form = forms((await one.get("/runs/asks")).text)[0]
        other.cookies.update(one.cookies)
        late = await post(other, dict(form), do="approve")
        assert (late.status_code, "another user's" in words(late.text)) == (403, True)
        assert await heard(trail, "asks", "approval.granted.v1") == []
        own = forms((await other.get("/runs/asks")).text)[0]
        assert [(await post(other, own, do="approve")).status_code, form["action"]] == [303, own["action"]]
    (granted,) = await heard(trail, "asks", "approval.granted.v1")
    assert granted.by == "inspector:ben"


async def test_the_cookie_of_the_forms_is_of_this_site_alone_and_read_by_no_script(clients: Clients) -> None:
    async with clients() as client:
        said = (await client.get("/inbox")).headers["set-cookie"].lower()
        assert "set-cookie" not in (await client.get("/runs/asks")).headers
    assert "httponly" in said
    assert "samesite=strict" in said


async def test_a_form_needs_a_reason_and_an_answer_that_there_is(trail: Steptrail, clients: Clients) -> None:
    async with clients() as client:
        for said in ({"reason": " "}, {"reason": "x" * 2_001}, {"do": "rerun"}, {"do": ""}):
            answer = await act(client, "/runs/asks", **{"do": "approve", **said})
            assert answer.status_code == 422, said
    assert (await trail.session("asks").state()).status is ExecutionStatus.WAITING


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("text/plain", b"do=approve", 415),
        ("application/x-www-form-urlencoded", b"x" * 300_000, 413),
        ("application/x-www-form-urlencoded", b"\xff=1", 400),
        ("application/x-www-form-urlencoded", b"&".join(b"a=1" for _ in range(50)), 400),
        ("application/x-www-form-urlencoded", b"do=approve", 403),
    ],
)
async def test_only_a_form_of_some_size_is_read(clients: Clients, kind: str, body: bytes, status: int) -> None:
    async with clients() as client:
        await client.get("/runs/asks")
        answer = await client.post("/act/asks", content=body, headers={**OURS, "content-type": kind})
    assert answer.status_code == status


@pytest.mark.acceptance("8.6-21")
async def test_who_may_only_look_has_no_forms_and_finds_no_door(trail: Steptrail, clients: Clients) -> None:
    async with clients() as may, clients(everything) as may_not, clients(of_acme) as of_another:
        form = forms((await may.get("/runs/asks")).text)[0]
        for client in (may_not, of_another):
            client.cookies.update(may.cookies)
            assert (await post(client, dict(form), do="approve")).status_code == 404
        page = await may_not.get("/runs/asks")
    assert forms(page.text) == []
    assert "set-cookie" not in page.headers
    assert "These pages only read." in page.text
    assert await heard(trail, "asks", "approval.granted.v1") == []


async def test_a_page_says_that_an_answer_is_also_to_what_it_hides(clients: Clients) -> None:
    async with clients() as client:
        assert "An answer is to all of them" in (await client.get("/runs/asks")).text
        assert "An answer is to all of them" not in (await client.get("/runs/flow:review")).text
    async with clients(show="shape") as client:
        assert "An answer is to all of them" in (await client.get("/runs/flow:review")).text


async def park(store: str, name: str) -> None:
    """Leave a run with a call of which nobody knows how it ended."""

    @tool(effect=ToolEffect.UNSAFE, on_unknown=OnUnknown.PARK)
    def send(to: str) -> str:
        """Send a letter."""
        return f"sent to {to}"

    script: list[Reply] = [call("send", to="ana"), "Sent."]
    agent = AgentBuilder("post").with_model(ScriptedModel(script)).with_tools(send).build()
    async with Steptrail(Environment(store=open_store(store), reach=crash_at("after-tool"))) as dying:
        with pytest.raises(Crash):
            await dying.run(agent, "Go", session=name)
    async with Steptrail.open(store) as trail:
        assert (await trail.session(name).resume(agent)).status is ExecutionStatus.WAITING


def typed_in(page: str) -> list[str]:
    """Return what stands in the fields for text of the forms that are not empty."""
    return [unescape(text) for text in re.findall(r"<textarea[^>]*>([^<]+)</textarea>", page)]


async def test_what_was_typed_stands_in_the_form_again_when_it_is_refused_beside_the_reason(
    trail: Steptrail, tmp_path: Path
) -> None:
    store, said = f"sqlite:///{tmp_path / 'parked.db'}", {"reason": "I looked\nit up", "data": '{"sent": 1'}
    await park(store, "parked")
    async with Steptrail.open(store) as parked:
        transport = httpx.ASGITransport(inspector(parked, authorize=ana))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            refused = await act(client, "/runs/parked", "done", **said | {"reason": "I looked\r\nit up"})
            assert (refused.status_code, typed_in(refused.text)) == (422, ['{"sent": 1', "I looked\nit up"])
            assert "The data is not JSON. Nothing was done." in words(refused.text)
            assert "data-live" not in refused.text  # it would be replaced by the page without what was typed
            again = await post(client, forms(refused.text)[0], do="done", **said | {"data": '{"sent": 1}'})
        events = [record.event for record in await parked.session("parked").events()]
        settled = next(event for event in events if isinstance(event, ToolExecutionCompleted))
        assert (settled.settled_by, settled.settled_reason) == ("inspector:ana", "I looked\nit up")
    assert (again.status_code, again.headers["location"]) == (303, "/runs/parked")


async def test_what_was_typed_is_shown_when_there_is_no_form_for_it_any_more(
    trail: Steptrail, clients: Clients
) -> None:
    async with clients() as client:
        page = (await client.get("/runs/asks")).text
        await post(client, forms(page)[0], do="approve")
        late = await post(client, forms(page)[0], do="deny", reason="it is <b>not</b> hers")
    assert late.status_code == 409
    assert "This is not asked any more: inspector:ana has answered it already, at 20" in words(late.text)
    assert "What you had typed, as the reason: it is <b>not</b> hers" in words(late.text)


async def test_a_refused_pause_and_a_refused_fork_keep_their_reasons(trail: Steptrail, clients: Clients) -> None:
    async with clients() as client:
        steer = next(each for each in forms((await client.get("/runs/crashed")).text) if "once" not in each)
        stale = await post(client, {**steer, "shown": "9"}, do="pause", reason="not at night")
        fork = forms((await client.get("/runs/failed")).text)[-1]
        nowhere = await post(client, dict(fork), do="fork", after="77", reason="another way")
    assert (stale.status_code, typed_in(stale.text)) == (409, ["not at night"])
    assert (nowhere.status_code, typed_in(nowhere.text)) == (409, ["another way"])
    assert 'name="after" ' in nowhere.text
    assert 'value="77"' in nowhere.text
    assert nowhere.text.count('<details class="steer" open>') == 1


async def test_a_session_can_be_forked_from_its_page_where_a_step_has_ended_and_nowhere_else(
    trail: Steptrail, clients: Clients
) -> None:
    async with clients() as client:
        assert "fork" not in buttons((await client.get("/runs/asks")).text)  # in its first step
        await trail.run(desk(call("search", query="a"), calls(("refund", WANTED))), "Refund", session="in-a-step")
        (ended,) = await trail.session("in-a-step").history(types=["step.completed.v1"])
        page = (await client.get("/runs/in-a-step")).text
        assert f"last after event {ended.version}." in words(page)
        forked = await post(client, forms(page)[-1], do="fork")
        fork = (await client.get(forked.headers["location"])).text
        source = (await client.get("/runs/in-a-step")).text
    assert f"A fork of in-a-step , after event {ended.version} of it." in words(fork)
    assert f'href="/runs/in-a-step?e={ended.version}#e{ended.version}"' in fork
    assert f"Forked into {forked.headers['location'].removeprefix('/runs/')} ." in words(source)
    assert f'href="{forked.headers["location"]}"' in source


async def test_a_fork_is_its_tenants_also_after_an_event_at_which_the_session_was_nobodys(
    trail: Steptrail, clients: Clients
) -> None:
    tenant = "acme" * 20  # which is longer than what the index keeps of it
    agent = AgentBuilder("a").with_model(ScriptedModel(["One.", "Two."])).build()
    await trail.run(agent, "hello", session="moved")
    before = (await trail.session("moved").state()).version
    await trail.run(agent, "again", session="moved", metadata={"tenant": tenant})

    def of_tenant(request: object) -> Access:
        assert request is not None
        return Access(tenant=tenant, may_act=True)

    async with clients(of_tenant) as client:
        form = forms((await client.get("/runs/moved")).text)[-1]
        forked = await post(client, form, do="fork", after=str(before))
        assert (await client.get(forked.headers["location"])).status_code == 200


async def test_a_fork_tells_nothing_of_a_source_that_its_reader_may_not_see(trail: Steptrail, clients: Clients) -> None:
    await trail.session("failed").fork(session="theirs", by="ana", metadata={"tenant": "acme"})
    await trail.session("failed").fork(session="ours", by="ana")
    async with clients(of_acme) as client:
        assert "/runs/failed" not in (await client.get("/runs/theirs")).text
    async with clients(of_another) as client:
        source = (await client.get("/runs/failed")).text
    assert "Forked into ours ." in words(source)


async def test_many_questions_about_one_tool_are_said_once(trail: Steptrail, clients: Clients) -> None:
    await trail.run(desk(calls(*[("refund", WANTED)] * 8)), "Refund all", session="many")
    async with clients() as client:
        page = words((await client.get("/runs/many")).text)
    assert "Waiting for somebody to approve refund (8 times) Next" in page


async def test_a_page_that_refuses_a_filter_does_not_say_that_the_pages_only_read(clients: Clients) -> None:
    async with clients() as client:
        assert "These pages only read." not in (await client.get("/runs?status=lost")).text
        assert "These pages only read." not in (await client.get("/stats?since=soon")).text


async def test_the_lines_that_were_typed_can_all_be_seen(trail: Steptrail, clients: Clients) -> None:
    async with clients() as client:
        refused = await act(client, "/runs/asks", "rerun", reason="one\ntwo\nthree")
    assert re.search(r'<textarea name="reason" rows="3" [^>]*>one\ntwo\nthree</textarea>', refused.text)
