"""The pages of the inspector say what is stored, and where more of it is."""

import json
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.inspector import inspector
from steptrail.interfaces.http.inspector.events import chunk_of
from steptrail.projections.masking import Masking
from steptrail.testing import ScriptedModel, call
from steptrail.workflow import Envelope, Workflow
from tests.harness.hands import change_by_hand
from tests.inspector.conftest import Opened, everything
from tests.inspector.inspected import HOSTILE, desk
from tests.runner.kit import agent_of

PAGES = (
    *("/", "/runs", "/runs?agent=desk", "/inbox", "/health", "/runs/hostile", "/runs/flow:review", "/runs/failed?e=17"),
    *("/runs/family", "/runs/hostile/1?bars=errors&at=9&from=3", "/body/failed/7", "/state/hostile?at=9&from=3"),
    *("/find/hostile", "/find/hostile?q=script"),
)


def words(page: str) -> str:
    """Return what a page says, without its marks."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.partition("<main")[2])).split())


async def test_the_event_of_another_model_stands_out_as_one_of_a_retry_does() -> None:
    first, second = ScriptedModel([ConnectionError("away")] * 2), ScriptedModel(["", "", "Done."], name="second")
    agent = AgentBuilder("a").with_model(first).with_fallback(second).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        count = (await trail.run(agent, "go", session="s")).state.version
        lines = (await chunk_of(trail.store, "agent:s", Masking(), count=count, chosen=None)).lines
    tones = {line.record.event.TYPE: line.tone for line in lines}
    assert (tones["retry.scheduled.v1"], tones["model.switched.v1"]) == ("warn", "warn")


async def test_the_overview_says_what_needs_somebody(opened: Opened) -> None:
    async with opened() as client:
        said = words((await client.get("/")).text)
    assert "2 open questions" in said
    assert re.search(r"1 crashed crashed on \S+:\d+", said)
    assert "2 failed within a day" in said
    assert re.search("the first ends in (2 d 23 h|3 d)", said)
    assert said.count("paused by a person") == 0


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=failed", ["hostile", "failed"]),
        ("status=waiting&agent=desk", ["asks"]),
        ("waits_for=human", ["flow:review"]),
        ("stop_reason=error&agent=desk", ["failed"]),
        ("agent=nobody", []),
        ("after=failed", ["answered"]),
    ],
)
async def test_a_filter_is_in_the_address(opened: Opened, query: str, found: list[str]) -> None:
    async with opened() as client:
        page = (await client.get(f"/runs?{query}")).text
    assert re.findall(r'<a href="/runs/[^"]+" data-row>([^<]+)</a>', page) == found


async def test_the_runs_below_one_are_a_filter_and_on_its_page(opened: Opened) -> None:
    async with opened() as client:
        listed = re.findall(r'href="/runs/(child-\w+)"', (await client.get("/runs?parent=family")).text)
        page = (await client.get("/runs/family")).text
        below = (await client.get(f"/runs/{listed[0]}")).text
    assert len(listed) == 2
    assert sorted(re.findall(r'href="/runs/(child-\w+)"', page)) == sorted(listed)
    assert 'href="/runs/family"' in below


@pytest.mark.acceptance("8.6-1")
async def test_the_page_of_a_run_begins_with_why_it_stopped_who_decided_and_the_next_command(opened: Opened) -> None:
    async with opened(store="sqlite:///runs.db") as client:
        said = words((await client.get("/runs/failed")).text)
    assert "✕ failed Stopped after 2 steps (error), decided by ErrorPolicyCriterion" in said
    assert "Next steptrail retry AGENT failed --store sqlite:///runs.db" in said
    assert "error builtins:KeyError: 'missing', in tool look_up" in said
    assert "would go on with an error policy that retries tool errors" in said
    assert "2 steps, 2 tool calls, 30 tokens" in said


async def test_a_run_that_waits_says_for_what_and_how_to_answer(opened: Opened) -> None:
    async with opened() as client:
        run, inbox = (await client.get("/runs/asks")).text, (await client.get("/inbox")).text
        flow = words((await client.get("/runs/flow:review")).text)
    for page in (run, inbox):
        said = words(page)
        assert '{"order": "A-7", "cents": 48151623, "password": "…"}' in said
        assert "without an answer it is denied, and the call does not run" in said
        assert re.search(r"steptrail approve asks asks:1:1:0 --by WHO --digest [0-9a-f]{64}", said)
        assert "hunter2" not in page
    assert "Waiting for somebody to approve refund" in words(run)
    assert "Publish <b>it</b>?" in flow
    assert "steptrail answer flow:review review --approve" in flow


async def test_every_event_has_a_number_a_link_and_a_line(opened: Opened, inspected: Path) -> None:
    async with opened() as client:
        page = (await client.get("/runs/failed?e=7")).text
        alone = words((await client.get("/body/failed/7?path=/reply/parts/0")).text)
        missing = await client.get("/body/failed/99")
        nowhere = await client.get("/body/failed/7?path=/reply/parts/9")
    async with Steptrail.open(f"sqlite:///{inspected}", read_only=True) as trail:
        records = await trail.session("failed").events()
    assert re.findall(r'<tr id="e(\d+)"', page) == [str(record.version) for record in records]
    assert all(f'href="/runs/failed?e={record.version}#e{record.version}"' in page for record in records)
    assert "&#34;finish_reason&#34;: &#34;tool_calls&#34;" in page
    assert '"name": "search"' in alone
    assert (missing.status_code, nowhere.status_code) == (404, 404)


@pytest.mark.acceptance("8.6-7")
async def test_the_page_of_a_run_has_its_bars_its_decision_and_the_state_after_any_event(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs/failed")).text
        chosen = words((await client.get("/runs/failed?d=12")).text)
        at = (await client.get("/runs/failed?at=9")).text
        late = words((await client.get("/runs/failed?at=9999")).text)
    said = words(page)
    assert page.count('<rect class="bar') == 4
    bar = r"scripted \d+ ms; look_up \d+ ms failed \(tool\) → stop: ErrorPolicyCriterion"
    assert re.search(bar, said)
    assert "Decision after step 2, event 20 : it stops (error), by ErrorPolicyCriterion" in said
    assert "StepsLimit allow Steps under limit: 2/20 10 %" in said
    assert "Decision after step 1, event 12 : it goes on, by ToolCallPresenceCheck" in chosen
    state = json.loads(unescape(re.findall(r'aria-label="The state">(.*?)</pre>', at, re.DOTALL)[0]))
    assert (state["status"], state["openStep"], state["openCalls"][0]["status"]) == ("in_progress", 1, "completed")
    assert "After event 21 of 21" in late


async def test_a_run_of_a_workflow_has_its_graph_and_its_visits(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs/flow:review")).text
    marks = re.findall(r'<g class="node (\w+)"><title>(\w+)', page)
    assert marks == [("ran", "write"), ("tolerated", "count"), ("waiting", "review"), ("untouched", "publish")]
    assert page.count('class="edge taken"') == 2
    assert "failed (timeout); tolerated" in words(page)
    assert "human, open" in words(page)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/body/failed/{10**30}", 404),
        (f"/runs/failed/{10**30}", 404),
        *((f"/{word}/failed/{'9' * 5_000}", 404) for word in ("runs", "state", "find", "why", "body")),
        (f"/runs/failed?e={10**14}&w={10**14}&d={10**14}&at={10**14}", 200),
        ("/runs/failed?e=0&w=0&d=0&at=0", 200),
        ("/runs/failed?e=-1&w=x&d=%D9%A3&at=", 200),
        ("/runs?after=nobody", 200),
        ("/runs?agent=%00", 400),
        ("/runs?status=zzz&waits_for=%F0%9F%98%80", 400),
        ("/inbox?after=x%00", 404),
        ("/runs/%00", 404),
        ("/runs/flow:", 404),
        ("/body/failed/7?path=reply", 404),
        ("/body/failed/7?path=/reply/parts/99999999999", 404),
        ("/body/failed/7?path=/reply&from=99999", 200),
        (f"/state/failed/{10**30}", 404),
        (f"/find/failed/{10**30}?q=x", 404),
        (f"/why/failed/{10**30}", 404),
        *((f"/{word}/failed/0", 404) for word in ("runs", "state", "find", "why")),
        *((f"/{word}/failed/2", 404) for word in ("runs", "state", "find", "why")),
        *((f"/{word}/..%2F..%2Fetc", 404) for word in ("runs", "state", "find", "why")),
        *((f"/{word}/%00", 404) for word in ("state", "find", "why")),
        *((f"/{word}/{'x' * 5_000}", 404) for word in ("runs", "state", "find", "why")),
        (f"/state/failed?at={10**14}&from={10**14}", 200),
        ("/state/failed?at=-1&from=-1&w=-1&bars=%00", 200),
        (f"/state/failed?at={'9' * 500}", 200),
        ("/find/failed", 200),
        ("/find/failed?q=%00%00", 200),
        ("/find/failed?q=a&q=b&first=0", 200),
    ],
)
async def test_an_address_that_nobody_would_give_is_answered(opened: Opened, path: str, status: int) -> None:
    async with opened() as client:
        assert (await client.get(path)).status_code == status


async def test_a_fault_of_ours_is_a_page_that_says_nothing_and_a_line_in_the_log(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(key: str, value: object) -> str:
        raise RuntimeError(f"a secret of {key} {value}")

    async with opened(mask=fails) as client:
        answer = await client.get("/runs/failed")
    assert answer.status_code == 500
    assert "a secret of" not in answer.text
    assert answer.headers["content-security-policy"]
    assert "a secret of" in caplog.text


async def test_an_execution_has_a_page_of_its_own(opened: Opened) -> None:
    async with opened() as client:
        assert (await client.get("/runs/failed/1")).status_code == 200
        assert (await client.get("/runs/failed/2")).status_code == 404


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.acceptance("8.6-4")
async def test_no_text_of_a_log_is_more_than_text(opened: Opened, path: str) -> None:
    async with opened() as client:
        answer = await client.get(path)
    assert answer.status_code == 200
    assert "<img" not in answer.text
    assert re.findall(r'<script src="([^"]*)" defer>', answer.text) == [
        "/static/vendor/htmx-4.0.1.min.js",
        "/static/own/inspector.js",
    ]
    assert answer.text.count("<script") == 2
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", answer.text)
    assert "49" not in re.findall(r"back(\S+)", answer.text)


async def test_a_hostile_text_is_shown_as_it_is(opened: Opened) -> None:
    async with opened() as client:
        said = words((await client.get("/body/hostile/7")).text)
    assert json.dumps(HOSTILE)[1:20] in said


@pytest.mark.parametrize("where", ["/steptrail", "/50%25/a%3Fb%23c"])
async def test_links_begin_where_the_application_is_mounted(inspected: Path, where: str) -> None:
    async with Steptrail.open(f"sqlite:///{inspected}", read_only=True) as trail:
        app = Starlette(routes=[Mount(unquote(where), inspector(trail, authorize=everything))])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            pages = [(await client.get(f"{where}{path}")).text for path in PAGES]
            style = await client.get(f"{where}/static/own/inspector.css")
    places = {place for page in pages for place in re.findall(r'(?:href|src|action)="([^"]*)"', page)}
    assert style.status_code == 200
    assert len(places) > 50
    assert [place for place in places if not place.startswith((f"{where}/", "#"))] == []


async def test_a_record_that_cannot_be_read_is_named_and_what_is_before_it_is_shown(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await trail.run(desk("Hello."), "Hi", session="hurt")
    change_by_hand(tmp_path / "runs.db", "UPDATE stored_events SET state = CAST('x' AS BLOB) WHERE version = 6")
    async with Steptrail.open(url, read_only=True) as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            page = await client.get("/runs/hurt")
            body = words((await client.get("/body/hurt/6")).text)
    assert page.status_code == 200
    assert "Damaged:" in page.text
    assert re.findall(r'<tr id="e(\d+)"', page.text) == ["1", "2", "3", "4", "5"]
    assert "It cannot be read" in body


async def test_the_page_of_a_workflow_names_the_class_and_the_place_of_its_error_and_how_those_below_ended() -> None:
    def fail(envelope: Envelope) -> object:
        raise KeyError(envelope.input) from OSError("the disk is full")

    inner = Workflow("inner").function("fail", fail).build()
    outer = Workflow("outer").flow("below", inner, input="{{ input }}", on_error="continue").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(inner, "tea", session="inner")
        await trail.run(outer, "tea", session="outer")
        await trail.run(Workflow("good").noop("only").build(), session="good")
        app = inspector(trail, authorize=everything)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8400") as client:
            failed, tree, good = [
                words((await client.get(f"/runs/flow:{name}")).text) for name in ("inner", "outer", "good")
            ]
    assert "error builtins:KeyError: 'tea'" in failed
    assert re.search(r" at tests/inspector/test_pages\.py:\d+ in fail ", failed)
    assert "caused by builtins:OSError: the disk is full" in failed
    assert re.search(r"flow:child-\w+ inner error, 0 steps, ", tree)
    assert "✓ completed Nothing was left to do" in good


@pytest.mark.parametrize("path", ["/nothing", "/runs/failed/1/2", "/act/failed", "/favicon.ico"])
async def test_an_address_without_a_page_is_answered_with_one_that_leads_on(opened: Opened, path: str) -> None:
    async with opened() as client:
        answer = await client.get(path)
        nobody = await client.get("/runs/nobody")
    assert (answer.status_code, answer.text) == (404, nobody.text)
    assert '<a href="/runs">Runs</a>' in answer.text


async def test_the_page_says_when_a_limit_in_shadow_would_have_stopped_the_run() -> None:
    agent = agent_of(["Hello."]).with_max_steps(0, shadow=True).with_max_tokens(1, shadow=True).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "Hi", session="tried")
        app = inspector(trail, authorize=everything)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8400") as client:
            page = words((await client.get("/runs/tried")).text)
    assert "in shadow StepsLimit would have stopped it before the first step" in page
    assert "in shadow TokenUsageLimit would have stopped it after step 1" in page


async def test_the_page_says_of_a_stop_whether_it_came_about() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        app = inspector(trail, authorize=everything)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8400") as client:
            told = list[str]()

            @tool
            async def hold() -> str:
                """Have somebody stop the run."""
                await trail.session("s").stop(by="ops", reason="lunch")
                told.append(words((await client.get("/runs/s")).text))
                return "held"

            await trail.run(agent_of([call("hold"), "done"]).with_tools(hold).build(), "go", session="s")
            told.append(words((await client.get("/runs/s")).text))
    assert " stop asked by ops: lunch " in told[0]
    assert " stopped by ops: lunch " in told[1]
    assert " stop asked " not in told[1]
