"""A page follows a run of a workflow, over HTTP and in a real browser: through reloads and a dead service."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from steptrail import Steptrail
from steptrail.ui import UiFlowRun
from tests.examples.running import until
from tests.harness.ready_python import KILL
from tests.web.browsing import until_it_is_so
from tests.web.served import WORDS
from tests.web.serving import AS_ANA, Heard, Served, heard, serving
from tests.web.test_browser import TRANSPORTS, shows


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, "--gated") as running:
        assert httpx.post(f"{running.url}/start/f").status_code == 202
        until(lambda: httpx.get(f"{running.url}/agent/flows/f/run", headers=AS_ANA).is_success)
        yield running


def stored(served: Served) -> dict[str, Any]:
    run: dict[str, Any] = httpx.get(f"{served.url}/agent/flows/f/run", headers=AS_ANA).json()
    UiFlowRun.model_validate(run)
    return run


def opened(browser: Browser, served: Served, transport: str) -> Page:
    page = browser.new_context().new_page()
    page.goto(f"{served.url}/?flow=f&transport={transport}")
    return page


def answer(served: Served) -> None:
    assert httpx.post(f"{served.url}/answer/f").status_code == 202


def ends_as_stored(page: Page, served: Served) -> None:
    until_it_is_so(page, "() => shown.run?.status === 'completed' && !shown.view.writing.length")
    assert page.evaluate("shown.run") == stored(served)
    assert page.locator("#output").inner_text() == WORDS
    assert page.locator("#nodes li.ran").all_inner_texts() == ["gather", "write", "review", "publish"]
    assert page.locator("#questions li").count() == 0


@pytest.mark.acceptance("7.4-4")
@TRANSPORTS
def test_a_page_sees_a_run_from_its_start_over_a_question_to_its_end_also_when_it_is_reloaded(
    browser: Browser, served: Served, transport: str
) -> None:
    page = opened(browser, served, transport)
    served.go(3)
    shows(page, "write: Tea is a")
    assert page.locator("#nodes li.ran").all_inner_texts() == ["gather"]
    page.reload()
    shows(page, "write: Tea is a")
    served.go()
    shows(page, "Publish it?")
    until_it_is_so(page, "() => shown.view.status === 'waiting' && !shown.view.writing.length")
    page.reload()
    shows(page, "Publish it?")
    answer(served)
    ends_as_stored(page, served)


@TRANSPORTS
def test_a_page_outlives_the_service_that_it_follows(browser: Browser, served: Served, transport: str) -> None:
    page = opened(browser, served, transport)
    served.go(3)
    shows(page, "write: Tea is a")
    served.ends_with(KILL)
    until_it_is_so(page, "() => shown.downs > 0")
    served.start()
    shows(page, "Publish it?")
    answer(served)
    ends_as_stored(page, served)


def messages(served: Served, after: str = "") -> list[Heard]:
    """Return what is told after a message, up to the end of the run, and see that only heartbeats come behind that."""
    found: list[Heard] = []
    headers = {"Last-Event-ID": after} if after else {}
    with served.client as client, client.stream("GET", "/agent/flows/f/events", headers=headers) as answered:
        assert answered.status_code == 200
        for each in heard(answered.iter_lines()):
            if each.data is None and found and _ends(found[-1]):
                return found
            if each.data is not None:
                found.append(each)
    raise AssertionError("the stream has ended")


def _ends(told: Heard) -> bool:
    return told.data is not None and told.data["data"].get("stop_reason") is not None


def test_whoever_comes_again_gets_what_comes_after_the_last_message_and_nothing_twice(served: Served) -> None:
    served.go()
    until(lambda: stored(served)["questions"])
    answer(served)
    until(lambda: stored(served)["status"] == "completed")
    whole = [each for each in messages(served) if each.id is not None]
    assert [each.id for each in whole] == [each.data and each.data["sequence"] for each in whole]
    assert [each.data and each.data["previous"] for each in whole] == [None, *(each.id for each in whole[:-1])]
    for place in range(len(whole) - 1):
        last = whole[place].id
        assert last is not None
        assert messages(served, last) == whole[place + 1 :]
    told = [each.data["event"] for each in whole if each.data is not None]
    assert told[:4] == ["flow.status", "flow.node.started", "flow.attempt.started", "flow.attempt.completed"]
    assert [each for each in told if "question" in each] == ["flow.question.asked", "flow.question.answered"]
    assert {each.data["flow_id"] for each in whole if each.data is not None} == {"f"}
    # A browser of another test may have left a running loop in this thread.
    with ThreadPoolExecutor(1) as elsewhere:
        assert stored(served)["version"] == elsewhere.submit(_version, served.store).result()


def _version(store: str) -> int:
    with Steptrail.open_sync(store) as trail:
        return trail.flow("f").state().version


def test_text_and_progress_come_between_the_messages_of_their_try(served: Served) -> None:
    with served.client as client, client.stream("GET", "/agent/flows/f/events") as answered:
        served.go()
        types = list[str]()
        text = ""
        for each in heard(answered.iter_lines()):
            if each.data is not None:
                types.append(each.data["event"])
                if each.data["event"] == "flow.stream.chunk":
                    assert (each.id, each.data["data"]["node"], each.data["data"]["attempt"]) == (None, "write", 1)
                    text += each.data["data"]["content"]
                if each.data["event"] == "flow.question.asked":
                    break
    assert WORDS.startswith(text) or text == WORDS
    first = types.index("flow.stream.chunk")
    assert types[:first].count("flow.attempt.started") == 2
    last = len(types) - 1 - types[::-1].index("flow.stream.chunk")
    assert types[last + 1] == "flow.attempt.completed"


def test_a_name_is_asked_about_that_no_session_has_and_who_may_not_see_a_run_sees_nothing(served: Served) -> None:
    for path in ("events", "run"):
        assert httpx.get(f"{served.url}/agent/flows/f/{path}").status_code == 403
        assert httpx.get(f"{served.url}/agent/flows/g/{path}", headers=AS_ANA).status_code == 404
        assert httpx.get(f"{served.url}/agent/flows/f%20g/{path}", headers=AS_ANA).status_code == 403
    assert httpx.get(f"{served.url}/agent/sessions/f/conversation", headers=AS_ANA).status_code == 404
