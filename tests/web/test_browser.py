"""The reference client in a real browser against the real service: what a person sees at the end is what is stored."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, TimeoutError as NothingCame

from steptrail import Steptrail
from tests.examples.running import ROOT
from tests.harness.ready_python import KILL
from tests.web.browsing import until_it_is_so
from tests.web.serving import AS_ANA, Served, serving
from tests.web.wire import Wire

TRANSPORTS = pytest.mark.parametrize("transport", ["sse", "websocket"])
ANSWER = "There are three boxes of tea in the attic and none in the cellar."


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, "--gated") as running:
        running.say("s")
        running.has("s")
        yield running


def opened(browser: Browser, url: str, transport: str) -> Page:
    page = browser.new_context().new_page()
    page.goto(f"{url}/?session=s&transport={transport}")
    return page


def shows(page: Page, text: str) -> None:
    try:
        until_it_is_so(page, "text => document.body.innerText.includes(text)", text)
    except NothingCame:
        print(page.evaluate("[document.body.innerText, shown]"))
        raise


def was_down(page: Page, times: int = 1) -> None:
    """Wait until the page has said so often that the line is down; how long it said so may be less than a frame."""
    until_it_is_so(page, "times => shown.downs >= times", times)


def ends_as_stored(page: Page, served: Served) -> list[dict[str, Any]]:
    """See that the run ends on the page, with what is stored and nothing twice on the way."""
    until_it_is_so(
        page, "() => shown.view.conversation?.status === 'completed' && !shown.messages.some(each => each.ephemeral)"
    )
    stored: list[dict[str, Any]] = httpx.get(f"{served.url}/agent/sessions/s/conversation", headers=AS_ANA).json()[
        "messages"
    ]
    assert page.evaluate("shown.messages") == stored
    assert page.evaluate("shown.twice ?? null") is None
    assert page.locator("#messages li").count() == len(stored) == 6
    assert page.locator("#messages li").all_inner_texts()[-1] == ANSWER
    return stored


@TRANSPORTS
def test_a_whole_run_is_seen_as_it_is_written_and_ends_as_it_is_stored(
    browser: Browser, served: Served, transport: str
) -> None:
    page = opened(browser, served.url, transport)
    shows(page, "Where is the tea?")
    served.go(3)
    shows(page, "Let me look")
    assert page.locator("li.ephemeral").count() == 1
    served.go()
    ends_as_stored(page, served)

    served.say("s", "Thank you.")
    shows(page, "You are welcome.")
    until_it_is_so(page, "() => shown.messages.length === 8 && !shown.messages.some(each => each.ephemeral)")


@TRANSPORTS
def test_a_page_that_is_reloaded_in_the_middle_of_a_reply_shows_it_from_its_beginning(
    browser: Browser, served: Served, transport: str
) -> None:
    page = opened(browser, served.url, transport)
    served.go(3)
    shows(page, "Let me look")
    page.reload()
    shows(page, "Let me look")
    assert page.evaluate("shown.view.lastId") is not None
    served.go(1)
    shows(page, "Let me look in")
    page.reload()
    served.go()
    ends_as_stored(page, served)


@TRANSPORTS
def test_a_server_that_is_killed_and_started_again_in_the_middle_of_a_reply_leaves_no_trace(
    browser: Browser, served: Served, transport: str
) -> None:
    page = opened(browser, served.url, transport)
    served.go(8)
    shows(page, "Let me look in the attic")
    served.ends_with(KILL)
    shows(page, "line is down")
    served.start("--gated")
    served.go()
    ends_as_stored(page, served)


@TRANSPORTS
def test_a_line_that_is_cut_again_and_again_loses_nothing(browser: Browser, served: Served, transport: str) -> None:
    with Wire(served.port) as wire:
        page = opened(browser, f"http://127.0.0.1:{wire.port}", transport)
        for times, said in enumerate(("Let", "Let me", "Let me look", "Let me look in"), 1):
            served.go(1)
            shows(page, said)
            wire.cut()
            was_down(page, times)
        served.go()
        ends_as_stored(page, served)


@TRANSPORTS
def test_a_line_that_goes_dead_without_a_word_is_noticed_and_opened_anew(
    browser: Browser, served: Served, transport: str
) -> None:
    with Wire(served.port) as wire:
        page = opened(browser, f"http://127.0.0.1:{wire.port}", transport)
        served.go(3)
        shows(page, "Let me look")
        wire.swallow()
        served.go()
        was_down(page)
        ends_as_stored(page, served)


@TRANSPORTS
def test_what_is_said_while_a_reply_is_written_is_seen_at_once_in_every_tab(
    browser: Browser, served: Served, transport: str
) -> None:
    tabs = [opened(browser, served.url, transport) for _ in range(2)]
    served.go(3)
    for page in tabs:
        shows(page, "Let me look")
    served.say("s", "And the milk?")
    for page in tabs:
        shows(page, "And the milk?")
        assert page.locator("li.ephemeral").count() == 1
    served.go()


@TRANSPORTS
def test_a_page_that_was_opened_before_the_first_message_shows_it_when_it_comes(
    browser: Browser, served: Served, transport: str
) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{served.url}/?session=new&transport={transport}")
    until_it_is_so(page, "() => shown.view.missing")
    assert page.evaluate("shown.view.refused") is None
    served.go()
    served.say("new")
    shows(page, ANSWER)
    until_it_is_so(page, "() => shown.view.connected && !shown.view.missing")


def test_a_token_goes_with_the_stream_of_messages_too(browser: Browser, served: Served) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{served.url}/?session=s&user=nobody&token=of-ana")
    served.go(3)
    shows(page, "Let me look")
    served.go()
    ends_as_stored(page, served)


def test_who_may_not_see_a_session_is_told_so_until_it_may(browser: Browser, served: Served) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{served.url}/?session=s&user=bob")
    until_it_is_so(page, "() => shown.view.refused === 'Forbidden'")
    assert page.evaluate("shown.messages") == []
    page.evaluate("document.cookie = 'user=ana; path=/'")
    shows(page, "Where is the tea?")
    until_it_is_so(page, "() => shown.view.refused === null && shown.view.connected")


def test_a_run_that_a_person_stops_has_one_status_live_after_a_reload_and_in_a_new_tab(
    browser: Browser, served: Served
) -> None:
    page = opened(browser, served.url, "sse")
    served.go(3)
    shows(page, "Let me look")

    def stop() -> None:
        with Steptrail.open_sync(served.store) as trail:
            trail.session("s").stop(by="ben")

    asked = threading.Thread(target=stop)  # here is the browser's loop
    asked.start()
    asked.join()
    until_it_is_so(page, "() => shown.view.conversation?.stop_reason === 'user_requested'")
    live = page.evaluate("[shown.view.status, shown.view.conversation.status]")
    page.reload()
    fresh = opened(browser, served.url, "websocket")
    for each in (page, fresh):
        until_it_is_so(each, "() => shown.view.connected")
        assert each.evaluate("[shown.view.status, shown.view.conversation.status]") == live == ["completed"] * 2


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    """A page with the client's module at hand, which follows nothing."""
    page = browser.new_context().new_page()
    page.goto(f"{served.url}/agent/steptrail.js")
    yield page
    page.context.close()


CASES: list[dict[str, Any]] = json.loads((ROOT / "tests/unit/ui/reconciliation_cases.json").read_text())
RECONCILED = """
async ({shown, stored, shown_version, stored_version}) => {
  const {reconcile} = await import("/agent/steptrail.js");
  const told = (version, lines) => ({version, messages: lines.map(
    ([id, role, content, metadata]) => ({id, role, content, ...(metadata ? {metadata} : {})}))});
  const result = reconcile(told(shown_version ?? 1, shown), told(stored_version ?? 2, stored));
  return result.messages.map(({id, role, content, metadata}) => [id, role, content, ...(metadata ? [metadata] : [])]);
}
"""


def test_every_case_of_the_contract_is_reconciled_as_it_says(page: Page) -> None:
    assert len(CASES) > 10
    assert [page.evaluate(RECONCILED, case) for case in CASES] == [case["expected"] for case in CASES]


FAKED = """
async (told) => {
  const {SteptrailSession} = await import("/agent/steptrail.js");
  const asked = [], lines = [], kept = new Map(), views = [];
  const session = new SteptrailSession("/s", (messages, view) => views.push({messages, view}), {
    storage: {getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value)},
    fetch: async (address) => {
      if (address.includes("/events")) {
        return new Response(new ReadableStream({start: (line) => lines.push({line, address})}));
      }
      asked.push(address);
      return new Response(JSON.stringify({version: 3, status: "completed", messages: [], approvals: []}));
    },
  });
  const settled = () => new Promise((done) => setTimeout(done, 20));
  await settled();
  session.note("could not be sent");
  const counts = [asked.length];
  const encoder = new TextEncoder();
  for (const body of told) {
    // Wherever the network cuts: here in the middle of a character, too.
    const bytes = encoder.encode(`retry: 5\r\nid: 1\r\ndata: ${JSON.stringify(body)}\r\n\r\n`);
    for (let at = 0; at < bytes.length; at += 7) lines[0].line.enqueue(bytes.slice(at, at + 7));
    await settled();
    counts.push(asked.length);
  }
  session.close();
  return {counts, address: lines[0].address, kept: [...kept.values()], last: views.at(-1)};
}
"""


def told(sequence: str, previous: str | None, event: str = "agent.step.started") -> dict[str, Any]:
    return {"event": event, "sequence": sequence, "previous": previous, "data": {"step_number": 1}}


def test_a_message_that_was_missed_has_the_conversation_fetched_and_one_that_comes_twice_does_not(page: Page) -> None:
    bodies = [told("2.1", None), told("3.1", "2.1"), told("3.1", "2.1"), told("2.1", "1.2"), told("3.4", "3.3")]
    found = page.evaluate(FAKED, bodies)
    assert [count - found["counts"][0] for count in found["counts"]] == [0, 0, 0, 0, 0, 1]
    assert found["address"].endswith("/s/events?after=3")
    assert found["kept"] == ["3.4"]
    assert [each["content"] for each in found["last"]["messages"]] == ["could not be sent"]


def test_text_that_was_dropped_for_a_slow_reader_is_marked_and_other_forms_are_read_too(page: Page) -> None:
    def chunk(text: str) -> dict[str, Any]:
        payload = {"message_id": "s:1:1", "content": text, "is_complete": False, "step_number": 1, "attempt": 1}
        return {"type": "agent.stream.chunk", "sequence": "2.1", "previous": "2.1", "payload": payload}

    lost = {"type": "agent.stream.lost", "sequence": "2.1", "previous": "2.1", "payload": {"count": 3}}
    found = page.evaluate(FAKED, [chunk("It is "), lost, chunk("late.")])
    assert found["last"]["messages"][-1]["content"] == "… late."
    assert found["last"]["messages"][-1]["ephemeral"] is True
    assert found["last"]["view"]["lastId"] == "2.1"
