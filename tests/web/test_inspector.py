"""The inspector in a real browser: by keyboard, narrow and wide, light and dark, and nothing that it must not do."""

import asyncio
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, Request, Route, ViewportSize

from steptrail import Steptrail
from steptrail.testing import calls
from steptrail.workflow import Workflow
from tests.examples.running import ROOT, environment
from tests.harness.ready_python import KILL, ready_python
from tests.inspector.inspected import WANTED, build, desk
from tests.npm import installed
from tests.web.browsing import PATIENCE_MS, until_it_is_so

PAGES = (
    "/",
    "/runs",
    "/inbox",
    "/health",
    "/runs/failed?e=17&at=9",
    "/runs/asks",
    "/runs/family",
    "/runs/flow:review",
    "/runs/hostile?e=7",
    "/body/hostile/7",
    "/runs/nobody",
    "/runs?since=7d&order=slowest",
    "/failures",
    "/stats",
    "/compare?a=failed&b=answered",
    "/state/failed?at=20&from=11",
    "/runs/failed/1?bars=errors&at=9&from=3",
    "/runs?status=failed&agent=desk&tool=look_up",
    "/find/hostile?q=script",
)
LOOKS: dict[Literal["light", "dark"], ViewportSize] = {
    "light": {"width": 1280, "height": 900},
    "dark": {"width": 390, "height": 844},
}
"""Wide and light, narrow and dark."""


def in_thread(work: Callable[[], None]) -> None:
    """Do work that needs a loop of its own, where the browser's loop runs."""
    worker = threading.Thread(target=work)
    worker.start()
    worker.join()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `steptrail inspect` over a store with a run of each kind."""
    store = f"sqlite:///{tmp_path_factory.mktemp('inspected') / 'runs.db'}"
    in_thread(lambda: asyncio.run(build(store)))
    with serving(store) as served:
        yield served


@contextmanager
def serving(store: str, port: int = 0, *options: str) -> Generator[str]:
    """Run `steptrail inspect`, and give its address."""
    command = [ready_python(), "-m", "steptrail", "inspect", "--store", store, "--port", str(port), *options]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[4].rstrip("/")
        finally:
            process.send_signal(KILL)


@contextmanager
def opened(chromium: Browser, address: str, *, excused: str = "404", **settings: Any) -> Generator[Page]:
    """Open a page that may say nothing to the console, and may ask nothing of any other server.

    A browser itself tells the console of a page of 404, and of a server that is away.
    """
    # What was loaded before is still there in the context of the tests that want nothing special: half of what a page
    # takes.
    context = chromium.new_context(**settings) if settings or not chromium.contexts else chromium.contexts[0]
    page, faults = context.new_page(), list[str]()
    page.on("console", lambda message: faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(address) else faults.append(request.url))
    try:
        yield page
    finally:
        for each in context.pages:
            each.close()
        if settings:
            context.close()
    assert [fault for fault in faults if excused not in fault] == []


@pytest.mark.acceptance("8.6-8")
def test_somebody_on_call_finds_why_by_keyboard_alone(chromium: Browser, address: str) -> None:
    with opened(chromium, address) as page:
        page.goto(address)
        page.keyboard.press("g")
        page.keyboard.press("r")
        page.wait_for_url("**/runs")
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.name") == "status"
        page.keyboard.type("failed")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Show").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs?status=failed*")
        page.keyboard.press("j")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.innerText") == "failed"
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/failed")
        assert "decided by ErrorPolicyCriterion" in page.locator(".said").inner_text()
        page.keyboard.press("e")
        assert page.evaluate("document.activeElement.closest('tr').dataset.type") == "tool.execution.failed.v1"
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/failed?e=17#e17")
        assert "KeyError" in page.locator("tr.whole pre").inner_text()
        page.keyboard.press("d")
        assert "it stops (error)" in page.evaluate("document.activeElement.innerText")
        page.keyboard.press("?")
        assert page.locator("#help").is_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("g")
        page.keyboard.press("i")
        page.wait_for_url("**/inbox")


def test_steps_and_events_are_gone_through_by_keys(chromium: Browser, address: str) -> None:
    with opened(chromium, address) as page:
        page.goto(f"{address}/runs/failed")
        seen: list[object] = []
        for key in ("]", "]", "[", ".", ".", ","):
            page.keyboard.press(key)
            seen.append(page.evaluate("document.activeElement.innerText"))
        assert seen == ["step 1", "step 2", "step 1", "1", "2", "1"]


def test_a_link_to_an_event_of_another_chunk_leads_there(chromium: Browser, address: str) -> None:
    with opened(chromium, address) as page:
        page.goto(f"{address}/runs/failed#e17")
        page.wait_for_url("**/runs/failed#e17")
        assert page.locator("#e17").is_visible()
        page.goto(f"{address}/runs/failed#e999")
        page.wait_for_url("**/runs/failed?e=999#e999")


@pytest.mark.acceptance("8.6-9")
def test_every_page_fits_is_readable_and_says_what_it_is(chromium: Browser, address: str) -> None:
    axe = (installed("axe", {"axe-core": "4.14.1"}) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    # What passes is not told: it is most of it, and nobody asks.
    wanted = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice'], resultTypes: ['violations']}"
    with opened(chromium, address) as page:
        page.add_init_script(axe)
        for path in PAGES:
            page.goto(address + path)
            assert page.title().endswith("Steptrail")
            for scheme, size in LOOKS.items():
                page.set_viewport_size(size)
                page.emulate_media(color_scheme=scheme)
                assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], (path, scheme)
                found = page.evaluate(f"axe.run(document, {wanted})")
                grave = [
                    (fault["id"], [node["html"] for node in fault["nodes"]][:3])
                    for fault in found["violations"]
                    if fault["impact"] in {"serious", "critical"}
                ]
                assert grave == [], (path, scheme)


def test_all_that_is_said_is_there_without_a_script(chromium: Browser, address: str) -> None:
    with opened(chromium, address, java_script_enabled=False) as page:
        page.goto(address)
        page.get_by_role("link", name="failed", exact=True).first.click()
        assert "decided by ErrorPolicyCriterion" in page.locator(".said").inner_text()
        page.get_by_role("link", name="step 2").click()
        assert page.locator("tr.whole pre").is_visible()
        assert page.locator("[data-copy]:visible").count() == 0


def test_a_command_is_copied(chromium: Browser, address: str) -> None:
    with opened(chromium, address, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(f"{address}/runs/failed")
        command = page.locator(".next code").inner_text()
        page.locator(".next .copy").click()
        until_it_is_so(page, "() => document.querySelector('.next .copy').textContent === 'Copied'")
        assert page.evaluate("navigator.clipboard.readText()") == command
        assert command.startswith("steptrail retry AGENT failed --store sqlite:///")


def test_nothing_that_a_run_holds_takes_a_page_over(chromium: Browser, address: str) -> None:
    with opened(chromium, address) as page:
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        for path in ("/", "/runs", "/runs/hostile", "/runs/hostile?e=9&at=21", "/body/hostile/7", "/body/hostile/17"):
            page.goto(address + path)
            assert page.title() != "taken"
            assert page.locator("main img, main script").count() == 0
        assert dialogs == []


@pytest.mark.acceptance("8.6-10")
def test_a_page_follows_a_run_of_another_process_and_keeps_its_place(chromium: Browser, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    agent = desk(calls(("refund", WANTED)), "Refunded.")

    def ask() -> None:
        with Steptrail.open_sync(store) as trail:
            trail.run(agent, "Refund it", session="asks")

    def answer() -> None:
        with Steptrail.open_sync(store) as trail:
            trail.session("asks").approve("asks:1:1:0", by="ana")
            trail.session("asks").resume(agent)

    in_thread(ask)
    with serving(store) as address, opened(chromium, address) as page:
        page.goto(f"{address}/runs/asks")
        page.get_by_text("Live.").wait_for()
        page.locator(".filters input[name=e]").fill("12")
        page.locator(".card details").evaluate("each => { each.open = false; }")
        page.evaluate("window.mark = document.getElementById('e5')")
        in_thread(answer)
        page.locator(".said", has_text="completed").wait_for(timeout=PATIENCE_MS)
        page.locator("tr[data-type='execution.finished.v1']").wait_for(timeout=PATIENCE_MS)
        assert page.locator(".card").count() == 0
        assert page.evaluate("document.activeElement.name") == "e"
        assert page.locator(".filters input[name=e]").input_value() == "12"
        assert page.evaluate("window.mark === document.getElementById('e5')")
        assert page.locator(".next .copy").is_visible()


def test_a_list_says_how_many_are_new_and_does_not_jump(chromium: Browser, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"

    def run(session: str) -> None:
        with Steptrail.open_sync(store) as trail:
            trail.run(desk("Yes."), "Hi", session=session)

    in_thread(lambda: run("first"))
    with serving(store) as address, opened(chromium, address) as page:
        page.goto(f"{address}/runs")
        page.get_by_text("Live.").wait_for()
        in_thread(lambda: run("second"))
        page.get_by_text("1 new \u2191").wait_for(timeout=PATIENCE_MS)
        in_thread(lambda: run("third"))
        page.get_by_text("2 new \u2191").wait_for(timeout=PATIENCE_MS)
        assert page.locator("tbody [data-row]").all_inner_texts() == ["first"]
        page.get_by_text("2 new \u2191").click()
        page.get_by_role("link", name="third").wait_for()
        assert page.locator("tbody [data-row]").all_inner_texts() == ["third", "second", "first"]


def test_a_page_says_that_its_server_is_away_and_goes_on_when_it_is_back(chromium: Browser, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"

    def run(session: str) -> None:
        with Steptrail.open_sync(store) as trail:
            trail.run(desk("Yes."), "Hi", session=session)

    in_thread(lambda: run("first"))
    with ExitStack() as first:
        address = first.enter_context(serving(store))
        with opened(chromium, address, excused="net::ERR") as page:
            page.goto(address)
            page.get_by_text("Live.").wait_for()
            first.close()
            page.get_by_text("Not live since").wait_for(timeout=PATIENCE_MS)
            in_thread(lambda: run("meanwhile"))
            with serving(store, int(address.rpartition(":")[2])):
                page.get_by_role("link", name="meanwhile").wait_for(timeout=PATIENCE_MS)
                page.get_by_text("Live.", exact=True).wait_for(timeout=PATIENCE_MS)


def test_the_bars_and_the_filters_are_links_without_a_script(chromium: Browser, address: str) -> None:
    with opened(chromium, address, java_script_enabled=False) as page:
        page.goto(f"{address}/runs/failed")
        page.get_by_role("link", name="errors 1").click()
        page.wait_for_url("**/runs/failed?bars=errors#bars")
        assert page.locator(".bars > li").count() == 1
        page.get_by_role("link", name="step 2").click()
        page.wait_for_url("**/runs/failed?bars=errors&e=13#e13")
        assert page.locator(".bars > li").count() == 1
        page.get_by_role("link", name="the state after it").click()
        page.get_by_role("link", name="next step, event 18").click()
        page.wait_for_url("**/runs/failed?bars=errors&at=18#state")
        page.get_by_role("link", name="decision before").click()
        page.wait_for_url("**/runs/failed?bars=errors&at=12#state")
        page.goto(f"{address}/runs?status=failed&agent=desk")
        page.get_by_role("link", name="Without the filter Status: failed").click()
        page.wait_for_url("**/runs?agent=desk")
        page.goto(f"{address}/runs/failed")
        page.get_by_label("Find in run").fill("KEYERROR")
        page.get_by_role("button", name="Find").click()
        page.get_by_role("link", name="17", exact=True).click()
        page.wait_for_url("**/runs/failed?e=17#e17")


def test_a_text_is_found_and_a_filter_taken_away_by_keyboard(chromium: Browser, address: str) -> None:
    with opened(chromium, address) as page:
        page.goto(f"{address}/runs/failed")
        page.keyboard.press("f")
        assert page.evaluate("document.activeElement.name") == "q"
        page.keyboard.type("missing")
        page.keyboard.press("Enter")
        page.wait_for_url("**/find/failed?q=missing")
        page.keyboard.press("j")
        number = page.evaluate("document.activeElement.innerText")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/runs/failed?e={number}#e{number}")
        page.goto(f"{address}/runs?status=failed&agent=desk")
        page.locator(".chips a").first.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs?status=failed")


@pytest.mark.acceptance("8.6-34")
def test_a_copied_link_shows_the_same_again_with_the_state_of_the_slider(chromium: Browser, address: str) -> None:
    with opened(chromium, address, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.goto(f"{address}/runs/failed?bars=errors&e=7")
        page.locator("[data-slider]").fill("9")
        page.wait_for_url("**/runs/failed?bars=errors&e=7&at=9")
        shown = page.get_by_label("The state").inner_text()
        page.get_by_role("link", name="copy link").click()
        page.get_by_role("link", name="Copied").wait_for()
        link = page.evaluate("navigator.clipboard.readText()")
        assert link == f"{address}/runs/failed/1?bars=errors&e=7&at=9"
        page.goto(link)
        assert page.get_by_label("The state").inner_text() == shown
        assert page.locator("#e7.at").count() == 1
        assert page.locator(".bars > li").count() == 1
        page.get_by_role("link", name="json").click()
        assert '"executionId": "failed:1"' in page.locator("body").inner_text()


def test_what_the_slider_shows_outlives_an_answer_that_was_asked_for_before(chromium: Browser, address: str) -> None:
    def asks(address: str) -> Callable[[Request], bool]:
        return lambda request: request.resource_type == "fetch" and request.url.endswith(address)

    def hold(route: Route) -> None:
        if asks("/runs/failed?e=7")(route.request):
            held.append(route)
        else:
            route.continue_()

    held: list[Route] = []
    with opened(chromium, address) as page:
        page.route("**/*", hold)
        with page.expect_request(asks("/runs/failed?e=7")):
            page.goto(f"{address}/runs/failed?e=7")
        page.locator("[data-slider]").fill("9")
        page.wait_for_url("**/runs/failed?e=7&at=9")
        page.evaluate(
            "new MutationObserver(() => (window.seen ??= []).push(document.querySelector('[data-copy-link]').search))"
            ".observe(document.getElementById('main'), { subtree: true, childList: true, attributes: true })"
        )
        with page.expect_request(asks("/runs/failed?e=7&at=9")):
            held[0].fulfill(response=held[0].fetch(headers={}))
        assert {*page.evaluate("window.seen ?? []")} <= {"?e=7&at=9"}


def test_a_session_that_is_erased_leaves_the_page_that_is_open(chromium: Browser, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"

    def run() -> None:
        with Steptrail.open_sync(store) as trail:
            trail.run(desk("A secret."), "Hi", session="gone")

    def erase() -> None:
        with Steptrail.open_sync(store) as trail:
            trail.erase("gone", by="ana", reason="asked to")

    in_thread(run)
    with serving(store) as address, opened(chromium, address) as page, opened(chromium, address) as listed:
        listed.goto(f"{address}/")
        page.goto(f"{address}/runs/gone?e=7&at=5")
        for each in (page, listed):
            each.get_by_text("Live.").wait_for()
        in_thread(erase)
        page.get_by_text("There is nothing here that you may see.").wait_for(timeout=PATIENCE_MS)
        assert "gone" not in page.locator("body").inner_text()
        assert page.title() == "Nothing here \u00b7 Steptrail"
        listed.get_by_text("There are no runs yet.").wait_for(timeout=PATIENCE_MS)
        assert page.reload() is not None
        page.get_by_text("There is nothing here that you may see.").wait_for()


def test_of_two_tabs_the_one_that_is_late_is_told_so(chromium: Browser, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"

    def ask() -> None:
        with Steptrail.open_sync(store) as trail:
            trail.run(desk(calls(("refund", WANTED)), "Refunded."), "Refund it", session="asks")

    in_thread(ask)
    with serving(store, 0, "--allow-actions") as address, opened(chromium, address, excused="409") as page:
        other = page.context.new_page()
        other.route("**/live", lambda route: route.abort())
        for each in (page, other):
            each.goto(f"{address}/runs/asks")
            each.locator("[data-act]").first.fill("it is right")
        page.get_by_role("button", name="Approve", exact=True).click()
        page.wait_for_url("**/runs/asks")
        assert page.get_by_role("button", name="Approve", exact=True).count() == 0
        other.get_by_role("button", name="Deny", exact=True).click()
        other.get_by_role("alert").filter(has_text="has answered it already").wait_for()
        assert other.get_by_label("What was typed as reason").inner_text() == "it is right"
        other.get_by_role("link", name="asks as it stands now").click()
        assert other.get_by_role("button", name="Deny", exact=True).count() == 0


def test_the_names_of_nodes_fit_into_their_boxes(chromium: Browser, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    names = ["W" * 40, "MM_" * 20, "NORMALIZE_ADDRESS_RECORDS_OF_CUSTOMERS", "summarise_what_was_said_meanwhile", "i"]

    def run() -> None:
        flow = Workflow("named")
        for name in names:
            flow = flow.noop(name)
        with Steptrail.open_sync(store) as trail:
            trail.run(flow.build(), session="named")

    in_thread(run)
    with serving(store) as address, opened(chromium, address) as page:
        page.goto(f"{address}/runs/flow:named")
        widths = page.evaluate(
            "[...document.querySelectorAll('.node')].map(node => [node.querySelector('rect').getBBox().width, "
            "...[...node.querySelectorAll('text')].map(text => text.getBBox().width)])"
        )
    assert len(widths) == len(names)
    assert [texts for box, *texts in widths if max(texts) > box] == []


def test_a_page_whose_line_a_proxy_answers_while_its_server_is_away_is_live_again_when_it_is_back(
    chromium: Browser, address: str
) -> None:
    # A browser that is answered with anything but a stream does not ask for it again by itself.
    with opened(chromium, address, excused="502") as page:
        page.route("**/live", lambda route: route.fulfill(status=502), times=1)
        page.goto(f"{address}/runs/asks")
        page.get_by_text("Live.", exact=True).wait_for(timeout=PATIENCE_MS)


def test_a_page_whose_user_may_see_nothing_any_more_shows_nothing(chromium: Browser, address: str) -> None:
    def nothing(route: Route) -> None:
        is_first = route.request.resource_type == "document"
        route.continue_() if is_first else route.fulfill(response=route.fetch(url=f"{address}/runs/nobody"))

    with opened(chromium, address) as page:
        page.route("**/live", lambda route: route.fulfill(status=404))
        page.route("**/runs/asks", nothing)
        page.goto(f"{address}/runs/asks")
        page.get_by_text("There is nothing here that you may see.").wait_for(timeout=PATIENCE_MS)
