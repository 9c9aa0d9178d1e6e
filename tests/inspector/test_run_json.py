"""A run as JSON: what `why --json` says, as it may be shown; and the link that names what a page shows."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from steptrail import Steptrail
from steptrail.inspector import inspector
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.http.inspector.answering import Answering
from steptrail.projections.masking import HIDDEN
from steptrail.testing import calls
from tests.inspector.conftest import Opened, everything
from tests.inspector.inspected import WANTED, desk
from tests.inspector.test_security import of_acme

RUNS = ("answered", "failed", "asks", "limited", "family", "crashed", "hostile", "flow:review", "flow:published")


async def said_of(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    answer = await client.get(f"/why/{name}")
    assert answer.status_code == 200, name
    assert answer.headers["content-type"] == "application/json"
    assert answer.text.isascii()
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.acceptance("8.6-31")
@pytest.mark.parametrize("name", RUNS)
async def test_the_json_of_a_run_is_that_of_why_as_it_may_be_shown(
    opened: Opened, inspected: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{inspected}"
    async with opened(store=store) as client:
        page, said = (await client.get(f"/runs/{name}")).text, await said_of(client, name)
        one = (await client.get(f"/why/{name}/1")).json()
    (way,) = re.findall(r'<a href="([^"]+)">json</a>', page)
    why = await asked_of_the_command(store, name, capsys)
    assert unescape(way).replace("%3A", ":") == f"/why/{name}"
    assert said.pop("leftOut") == []
    # Times that go on until now, and what is hidden, are not compared.
    for key in ("spent", "waits", "verdict", "waitsFor", "approvals", "error"):
        assert (key in said) == (key in why), key
        for each in (said, one, why):
            each.pop(key, None)
    if name != "hostile":
        assert said == why
    else:
        assert said.keys() == why.keys()
    assert one.pop("leftOut") == []
    assert one == said


async def asked_of_the_command(store: str, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    import asyncio

    await asyncio.to_thread(main, ["why", name, "--store", store, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


async def test_what_is_hidden_on_pages_is_hidden_in_the_json(opened: Opened) -> None:
    async with opened() as client:
        answer = (await client.get("/why/asks")).text
    assert "hunter2" not in answer
    said = json.loads(answer)
    assert said["approvals"][0]["arguments"] == {**WANTED, "password": "…"}
    assert said["verdict"] == "Waiting for somebody to approve refund"
    assert said["waitsFor"] == "somebody to approve refund"
    async with opened(mask_keys=["order", "message"]) as client:
        assert (await said_of(client, "asks"))["approvals"][0]["arguments"]["order"] == HIDDEN
        assert (await said_of(client, "failed"))["error"]["message"] == HIDDEN


async def test_with_shape_the_json_has_no_value(opened: Opened) -> None:
    async with opened(show="shape") as client:
        texts = [(await client.get(f"/why/{name}")).text for name in RUNS]
        said = await said_of(client, "failed")
    for text in ("missing", "A-7", "hunter2", "48151623", "Publish", "did not answer", "onerror", "it moves money"):
        assert [each for each in texts if text in each] == [], text
    assert (said["status"], said["resolvedBy"], said["stopReason"]) == ("failed", "ErrorPolicyCriterion", "error")
    assert said["error"]["message"].startswith("(text, ")
    assert {vote["criterion"] for vote in said["evaluations"]} >= {"StepsLimit", "ErrorPolicyCriterion"}
    assert {vote["decision"] for vote in said["evaluations"]} == {"allow", "forbid"}


async def test_another_tenant_s_run_has_no_json(opened: Opened) -> None:
    async with opened(authorize=of_acme) as client:
        own, others = await client.get("/why/answered"), await client.get("/why/failed")
        missing = await client.get("/why/nobody")
        of_another = await client.get("/why/answered/2")
    assert own.status_code == 200
    assert (others.status_code, others.text) == (of_another.status_code, of_another.text) == (404, missing.text)


async def test_the_json_of_a_run_with_large_values_is_small_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        large = [("refund", {**WANTED, "order": "x" * 1_000_000}) for _ in range(30)]
        await trail.run(desk(calls(*large)), "Refund it", session="large")
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            answer = await client.get("/why/large")
    assert len(answer.content) < 100_000
    left_out = answer.json()["leftOut"]
    assert left_out
    assert all(each["path"].startswith("/approvals") for each in left_out)
    assert sum(each["size"] for each in left_out) > 1_000_000


def copied(page: str) -> str:
    (place,) = re.findall(r'<a href="([^"]+)" data-copy-link>copy link</a>', page)
    return unescape(place)


@pytest.mark.parametrize(
    ("asked", "link"),
    [
        ("/runs/failed", "/runs/failed/1"),
        ("/runs/failed/1", "/runs/failed/1"),
        ("/runs/failed?x=1&at=9&e=17&from=3&e=7", "/runs/failed/1?e=7&at=9&from=3"),
        ("/runs/failed?bars=slow&w=20&d=12&at=-1&from=zz", "/runs/failed/1?w=20&bars=slow&d=12"),
        ("/runs/flow:review?bars=<b>", "/runs/flow%3Areview/1"),
    ],
)
async def test_the_link_to_copy_names_what_is_shown(opened: Opened, asked: str, link: str) -> None:
    async with opened() as client:
        page = (await client.get(asked)).text
        there = await client.get(copied(page))
    assert copied(page) == link
    assert there.status_code == 200
    assert copied(there.text) == link


async def test_a_copied_link_stays_with_its_execution(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("One."), "Hi", session="twice")
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            link = copied((await client.get("/runs/twice")).text)
            before = (await client.get("/why/twice/1")).json()
            await trail.run(desk("Two."), "Hi again", session="twice")
            page = (await client.get(link)).text
            newest = (await client.get("/runs/twice")).text
            after, now = (await client.get("/why/twice/1")).json(), (await client.get("/why/twice")).json()
    assert (link, copied(newest)) == ("/runs/twice/1", "/runs/twice/2")
    assert "execution 1 of 2" in page
    assert (before["executionId"], after["executionId"], now["executionId"]) == ("twice:1", "twice:1", "twice:2")


async def test_an_execution_that_begins_while_a_page_is_made_is_not_taken_for_the_one_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = Answering.row_named
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("One."), "Hi", session="twice")

        async def before_another(self: Answering, *given: Any) -> Any:
            row = await named(self, *given)
            await trail.run(desk("One.", "Two."), "Hi again", session="twice")
            return row

        monkeypatch.setattr(Answering, "row_named", before_another)
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            said = (await client.get("/why/twice/1")).json()
    assert said["executionId"] == "twice:1"
