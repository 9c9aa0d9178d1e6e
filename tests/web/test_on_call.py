"""Somebody on call, in a real browser and by keyboard alone: from the overview to why, to others, and to an answer."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from steptrail import Steptrail
from steptrail.testing import call, calls
from tests.examples.running import ROOT, environment
from tests.harness.ready_python import KILL, ready_python
from tests.inspector.inspected import WANTED, desk
from tests.web.browsing import PATIENCE_MS, until_it_is_so
from tests.web.test_inspector import in_thread, opened, serving

WORKER = """
import sys, time
from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.testing import ScriptedModel, call

@tool(effect=ToolEffect.READ)
def look(query: str) -> str:
    "Look for a long time."
    print("looking", flush=True)
    time.sleep(600)
    return query

agent = AgentBuilder("night").with_model(ScriptedModel([call("look", query="tea"), "no"])).with_tools(look).build()
with Steptrail.open_sync(sys.argv[1]) as trail:
    trail.run(agent, "Look", session="night")
"""


@contextmanager
def worker(store: str) -> Generator["subprocess.Popen[str]"]:
    """Run an agent in a process of its own, which is in the middle of a call."""
    command = [ready_python(), "-c", WORKER, store]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "looking\n"
            yield process
        finally:
            process.send_signal(KILL)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store in which three runs have failed in the same way, and one asks for an approval."""
    made = f"sqlite:///{tmp_path / 'runs.db'}"

    def build() -> None:
        with Steptrail.open_sync(made) as trail:
            for number in range(3):
                script = (call("search", query="tea"), call("look_up", key=f"key-{number}"), "no")
                trail.run(desk(*script), "Look it up", session=f"lost-{number}")
            trail.run(desk(calls(("refund", WANTED)), "Refunded."), "Refund it", session="asks")

    in_thread(build)
    return made


def press_until(page: Page, key: str, said: str) -> None:
    """Press a key until what has the focus says something."""
    for _ in range(30):
        page.keyboard.press(key)
        if said in page.evaluate("document.activeElement.innerText"):
            return
    raise AssertionError(f"{key} does not lead to {said}")


def fits(page: Page) -> None:
    """See that nothing of a page is beyond its edge, narrow and wide."""
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (page.url, width)


@pytest.mark.acceptance("8.6-19")
def test_somebody_on_call_goes_from_the_overview_to_an_answer_by_keyboard_alone(chromium: Browser, store: str) -> None:
    with (
        worker(store) as night,
        serving(store, 0, "--allow-actions", "--by", "ana") as address,
        opened(chromium, address, viewport={"width": 1280, "height": 900}) as page,
    ):
        # From the overview to the failed run, and why it failed.
        page.goto(address)
        press_until(page, "j", "lost-2")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/lost-2")
        assert "decided by ErrorPolicyCriterion" in page.locator(".said").inner_text()
        fits(page)

        # The deciding vote, and the state before and after.
        page.keyboard.press("d")
        assert "ErrorPolicyCriterion" in page.locator(".votes tr.at").inner_text()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/lost-2?at=*")
        assert "~ steps: 1 → 2" in page.locator(".changes").inner_text()
        fits(page)

        # The slider shows another state, without a new page, and the address says which.
        page.evaluate("window.mark = 1")
        page.locator("[data-slider]").focus()
        page.keyboard.press("ArrowLeft")
        until_it_is_so(page, "() => /After event 19 of/.test(document.getElementById('state-box').innerText)")
        page.wait_for_url("**/runs/lost-2?at=19&*")
        assert page.evaluate("window.mark") == 1

        # The others like it, of which two are compared.
        page.goto(f"{address}/runs/lost-2")
        press_until(page, "j", "the same in 3 runs in the last 7 days")
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs?signature=*")
        assert page.locator("tbody [data-row]").all_inner_texts() == ["lost-2", "lost-1", "lost-0"]
        fits(page)
        press_until(page, "j", "lost-2")
        page.keyboard.press("x")
        page.keyboard.press("j")
        page.keyboard.press("c")
        page.wait_for_url("**/compare?a=lost-2%2F1&b=lost-1%2F1")
        assert "arguments.key: key-2 → key-1" in page.locator(".changes").inner_text()
        fits(page)

        # A run is followed while its worker dies.
        page.goto(f"{address}/runs/night")
        page.get_by_text("Live.", exact=True).wait_for()
        assert "in progress" in page.locator(".said").inner_text()
        night.send_signal(KILL)
        page.locator(".said", has_text="crashed").wait_for(timeout=PATIENCE_MS)
        page.keyboard.press("g")
        page.keyboard.press("o")
        page.wait_for_url(f"{address}/")
        assert "1 crashed" in page.locator(".needs").inner_text()

        # An approval is answered, with its reason.
        page.keyboard.press("g")
        page.keyboard.press("i")
        page.wait_for_url("**/inbox")
        page.keyboard.press("a")
        page.keyboard.type("the order is hers")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText") == "Approve"
        page.keyboard.press("Enter")
        page.wait_for_url("**/runs/asks")
        granted = page.locator("tr[data-type='approval.granted.v1']")
        assert "inspector:ana" in granted.inner_text()
        assert page.locator(".card").count() == 0
        fits(page)
