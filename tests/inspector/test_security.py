"""Who may look at the inspector, and what its answers forbid a browser."""

import hashlib
import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Mount

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import ConfigurationError
from steptrail.inspector import Access, inspector
from steptrail.interfaces.http.inspector import app, counted, lists, run_pages
from steptrail.interfaces.http.inspector.security import Guarded, TokenDoor, is_loopback
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import SubagentTool
from tests.inspector.conftest import Opened
from tests.inspector.inspected import desk, family
from tests.inspector.test_actions import ORIGIN, act, ana, forms
from tests.runner.kit import trail_of

HERE = Path(app.__file__).parent


def nothing(request: object) -> None:
    assert request is not None


def of_acme(request: object) -> Access:
    assert request is not None
    return Access(tenant="acme")


async def test_a_no_and_a_missing_run_are_one_answer(opened: Opened) -> None:
    async with opened() as may, opened(authorize=nothing) as may_not:
        missing = await may.get("/runs/nobody")
        for path in ("/", "/runs", "/inbox", "/health", "/runs/failed", "/runs/nobody", "/body/failed/1"):
            refused = await may_not.get(path)
            assert (refused.status_code, refused.text) == (404, missing.text), path


@pytest.mark.parametrize("answer", [True, 1, "yes", {"tenant": None}])
async def test_anything_but_an_access_is_a_no(opened: Opened, answer: Any) -> None:
    async def authorize(request: object) -> Any:
        return answer

    async with opened(authorize=authorize) as client:
        assert (await client.get("/runs")).status_code == 404


async def test_the_log_tells_no_credential_of_an_authorize_that_fails(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(request: object) -> Access:
        raise ConnectionError("the users are away, api_key=abcdef123456")

    async with opened(authorize=fails) as client:
        assert (await client.get("/")).status_code == 500
    assert "the users are away, api_key=…" in caplog.text
    assert "abcdef123456" not in caplog.text


async def test_what_authorize_raises_for_http_is_the_answer(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    def authorize(request: object) -> Access:
        raise HTTPException(401, "Who are you?", {"www-authenticate": "Basic"})

    async with opened(authorize=authorize) as client:
        for path in ("/", "/runs/failed", "/live"):
            answer = await client.get(path)
            assert (answer.status_code, answer.text) == (401, "Who are you?"), path
            assert answer.headers["www-authenticate"] == "Basic"
            assert answer.headers["content-security-policy"]
        assert (await client.post("/act/failed")).status_code == 401
    assert not caplog.records


@pytest.mark.acceptance("8.6-2")
async def test_a_tenant_sees_its_own_runs_and_nothing_of_others(opened: Opened) -> None:
    async with opened(authorize=of_acme) as client:
        pages = {path: (await client.get(path)) for path in ("/", "/runs", "/inbox", "/health")}
        own, others = await client.get("/runs/answered"), await client.get("/runs/failed")
        nobodys, missing = await client.get("/body/asks/1"), await client.get("/runs/missing")
    for path, page in pages.items():
        runs = set(re.findall(r'href="/runs/([^"?#]+)"', page.text))
        assert runs == ({"answered"} if path in {"/", "/runs"} else set()), path
    assert own.status_code == 200
    assert (others.status_code, others.text) == (nobodys.status_code, nobodys.text) == (404, missing.text)


async def test_a_run_of_others_and_one_that_is_not_there_are_looked_for_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Yes."), "Hi", session="of-others", metadata={"tenant": "other"})
        store: Any = trail.store
        ask = store._ask

        async def counted(question: Any, *args: Any) -> Any:
            asked.append(question.__qualname__)
            return await ask(question, *args)

        monkeypatch.setattr(store, "_ask", counted)
        transport = httpx.ASGITransport(inspector(trail, authorize=of_acme))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            for path in ("/runs/{}", "/why/{}", "/state/{}?at=1", "/find/{}?q=a", "/body/{}/1", "/compare?a={}&b=x"):
                looks = list[list[str]]()
                for name in ("of-others", "not-there"):
                    asked.clear()
                    assert (await client.get(path.format(name))).status_code == 404
                    looks.append(asked.copy())
                assert looks[0] == looks[1] != [], path


@pytest.mark.parametrize("path", ["/runs", "/inbox", "/runs?status=waiting"])
async def test_a_list_has_the_runs_of_its_reader_on_one_page_however_many_of_others_began_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(lists, "_MOST_LOOKED_AT", lists.PAGE)
    pages, place = list[str](), path
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        names = ["mine", *(f"of-others-{number}" for number in range(2 * lists.PAGE + 1))]
        for name in names:
            asks, owner = desk(call("refund", order="A-7", cents=5)), "acme" if name == "mine" else "other"
            await trail.run(asks, "Hi", session=name, metadata={"tenant": owner})
        transport = httpx.ASGITransport(inspector(trail, authorize=of_acme))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            while place:
                pages.append((await client.get(place)).text)
                place = unescape(next(iter(re.findall(r'href="([^"]+)" rel="next"', pages[-1])), ""))
            typed = [
                await client.get(path, params={**httpx.URL(path).params, "after": name})
                for name in (names[1], "nobody", "-", "")
            ]
    assert [("mine" in page, "of-others" in page) for page in pages] == [(True, False)]
    # A name that is typed is no place, whether there is such a run or not.
    assert [each.status_code for each in typed] == [404 if path == "/inbox" else 400] * 3 + [200]


async def test_a_list_by_the_read_models_tells_a_tenant_no_position_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counted, "PAGE", 1)
    found, place = list[str](), "/runs?order=newest"
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        for name in ("one", "two", "three"):
            await trail.run(desk("Yes."), "Hi", session=name, metadata={"tenant": "acme"})
        await trail.views.wait(timeout=60)
        typed = (await trail.views.of("acme").runs(limit=1)).next
        transport = httpx.ASGITransport(inspector(trail, authorize=of_acme))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            while place:
                page = (await client.get(place)).text
                found += re.findall(r'href="/runs/([^"?/]+)/1" data-row', page)
                place = unescape(next(iter(re.findall(r'href="([^"]+)" rel="next"', page)), ""))
                after = httpx.URL(place).params.get("after")
                assert after is None or "newest." not in after
            assert (await client.get("/runs", params={"order": "newest", "after": typed})).status_code == 400
    assert found == ["three", "two", "one"]


async def test_the_page_of_a_run_counts_no_forks_and_no_runs_below_that_its_reader_may_not_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pages, "_FORKS", 1)
    monkeypatch.setattr(lists, "_BELOW", 2)
    inner = AgentBuilder("inner").with_model(ScriptedModel(["Found."])).build()
    script: list[Reply] = [calls(*[("inner", {"prompt": way}) for way in ("left", "right", "on")]), "All."]
    outer = AgentBuilder("outer").with_model(ScriptedModel(script)).with_tools(SubagentTool(inner)).build()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(outer, "Go", session="mine", metadata={"tenant": "acme"})
        for name, owner in (("its-fork", "acme"), ("of-others-1", "other"), ("of-others-2", "other")):
            await trail.session("mine").fork(session=name, by="ana", metadata={"tenant": owner})
        first, *others = (each.run.session_id for _, each in list((await trail.tree("mine")).walk())[1:])
        for each in others:
            await trail.run(desk("Yes.", "Yes."), "Hi", session=each, metadata={"tenant": "other"})
        transport = httpx.ASGITransport(inspector(trail, authorize=of_acme))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            page = (await client.get("/runs/mine")).text
    assert re.findall(r'href="/runs/([^"?]+)" data-forked-into', page) == ["its-fork"]
    assert f'href="/runs/{first}"' in page
    assert ("and others" in page, "there may be more" in page) == (False, False)


async def test_a_tenant_without_a_name_is_no_tenant_and_sees_nothing(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(family(), "Do it", session="family", metadata={"tenant": "acme"})
        await trail.run(desk("Hello."), "Hi", session="mine")
        with pytest.raises(ConfigurationError, match="a tenant has a name"):
            trail.views.of("")
        transport = httpx.ASGITransport(inspector(trail, authorize=lambda _: Access(tenant="")))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answers = [await client.get(path) for path in ("/", "/runs?order=newest", "/stats", "/failures")]
    assert [each.status_code for each in answers] == [404] * 4
    assert "child-" not in answers[1].text


async def test_the_tenant_of_a_run_below_is_that_of_the_run_above(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(family(), "Go", session="top", metadata={"tenant": "acme"})
        assert [row.tenant for row in await trail.runs()] == ["acme"] * 3


async def test_every_answer_forbids_what_is_not_ours_and_is_not_kept(opened: Opened) -> None:
    async with opened() as client:
        for path in ("/", "/runs/failed", "/runs/nobody", "/static/own/inspector.js", "/nowhere"):
            headers = (await client.get(path)).headers
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'"), path
            assert policy.endswith("base-uri 'none'; frame-ancestors 'none'")
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"


async def test_the_stream_of_hints_forbids_to_be_compressed_as_well(opened: Opened) -> None:
    async with opened() as client:
        assert (await client.head("/live")).headers.get_list("cache-control") == ["no-store, no-transform"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8400", 200),
        ("[::1]:8400", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("evil.example", 421),
        ("localhost.evil.example:8400", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
@pytest.mark.acceptance("8.6-3")
async def test_a_name_that_is_not_ours_is_refused(opened: Opened, host: str, status: int) -> None:
    async with opened(hosts={"localhost"}) as client:
        assert (await client.get("/", headers={"host": host})).status_code == status


async def test_a_form_of_ours_is_taken_behind_a_proxy_that_names_another_host(opened: Opened) -> None:
    said = {"origin": "https://ops.example.com", "sec-fetch-site": "same-origin"}
    async with opened(authorize=ana, hosts=set()) as client:
        form = forms((await client.get("/runs/asks")).text)[0]
        answer = await client.post(form.pop("action"), data={**form, "do": "approve", "reason": ""}, headers=said)
    assert (answer.status_code, "Say why" in answer.text) == (422, True)  # it was read, and says too little


@pytest.mark.parametrize("tenant", ["\u65e5\u672c", "a;b", "50%", "a?b#c"])
async def test_a_form_is_taken_wherever_the_application_is_mounted(tenant: str) -> None:
    async with trail_of() as trail:
        await trail.start(desk("Hello."), "Hi", session="s")
        app = Starlette(routes=[Mount("/{tenant}/runs", inspector(trail, authorize=ana))])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as client:
            answer = await act(client, f"/{quote(tenant)}/runs/runs/s", "pause")
    assert answer.status_code == 303


async def test_only_get_is_answered(opened: Opened) -> None:
    async with opened() as client:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await client.request(method, "/runs/failed")).status_code == 405


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/own/../../security.py"])
async def test_nothing_but_static_files_is_served_as_a_file(opened: Opened, path: str) -> None:
    async with opened() as client:
        assert (await client.get(path)).status_code == 404


def _behind(door: TokenDoor) -> Any:
    """Return an application that says who is in."""

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        await PlainTextResponse("in" if door.knows(Request(scope)) else "out")(scope, receive, send)

    return door.before(inside)


DOOR = TokenDoor("a-long-token")


async def test_a_token_is_said_once_and_is_a_cookie_from_then_on() -> None:
    guarded = Guarded(_behind(DOOR), {"box.lan"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://box.lan") as client:
        assert (await client.get("/runs")).text == "out"
        assert (await client.get("/runs?token=wrong")).text == "out"
        opened = await client.get("/runs?status=failed&token=a-long-token")
        assert (opened.status_code, opened.headers["location"]) == (303, "/runs?status=failed")
        said = opened.headers["set-cookie"].lower()
        assert "httponly" in said
        assert "samesite=strict" in said
        assert opened.headers["cache-control"] == "no-store"
        assert (await client.get(opened.headers["location"])).text == "in"


async def test_a_browser_looks_into_two_stores_of_one_machine_at_once() -> None:
    stores = {"http://box.lan:8001": TokenDoor("of-one-store"), "http://box.lan:8002": TokenDoor("of-another-store")}
    async with httpx.AsyncClient(
        mounts={place: httpx.ASGITransport(_behind(door)) for place, door in stores.items()}, follow_redirects=True
    ) as browser:
        opened = [
            await browser.get("http://box.lan:8001/?token=of-one-store"),
            await browser.get("http://box.lan:8002/?token=of-another-store"),
            await browser.get("http://box.lan:8001/"),
        ]
        assert [each.text for each in opened] == ["in"] * 3


async def test_the_way_in_leads_nowhere_else() -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(_behind(DOOR)), base_url="http://b") as client:
        answer = await client.get("http://b//evil.example/?token=a-long-token")
    assert answer.headers["location"] == "/evil.example/"


@pytest.mark.parametrize(
    ("host", "is_ours"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("192.0.2.1", False), ("box", False)]
)
def test_an_address_of_this_machine_alone_needs_no_token(host: str, is_ours: bool) -> None:
    assert is_loopback(host) == is_ours


def test_what_is_vendored_is_what_was_looked_at() -> None:
    vendor = HERE / "static" / "vendor"
    sums = dict(line.split()[::-1] for line in (vendor / "SHA256SUMS").read_text().splitlines())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in vendor.iterdir()}
    files.pop("SHA256SUMS")
    assert files == sums
    assert all(f"{name.rsplit('.min', 1)[0]}.LICENSE" in files for name in files if name.endswith(".js"))


def test_a_template_names_no_content_of_what_it_is_given_as_it_was_stored() -> None:
    text = "".join(path.read_text() for path in HERE.glob("templates/*")).replace("masking.text(vote.reason)", "")
    # The events of decisions, the explanation of a run, and votes are not masked before.
    named = set(re.findall(r"\b(?:event|explained|vote|deciding)\.(\w+)", text))
    assert named == {
        *("TYPE", "step", "should_continue", "resolved_by", "stop_reason"),
        *("events", "is_newest"),
        *("criterion_class", "decision", "shadow"),
    }


def test_no_template_lets_a_text_through_and_nothing_is_asked_of_elsewhere() -> None:
    for path in [*HERE.glob("templates/*"), *HERE.glob("static/own/*")]:
        text = path.read_text()
        assert not re.search(r"\|\s*safe\b|autoescape|Markup|\bstyle=|\son\w+=|javascript:|innerHTML|eval\(", text), (
            path
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), path
    assert len((HERE / "static/own/inspector.js").read_text().splitlines()) <= 250
