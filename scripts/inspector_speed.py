"""Measure the inspector in a browser: how soon a long run opens, how it scrolls, and how soon another state is shown.

python scripts/inspector_speed.py [STEPS]    6,250 steps, some 50,000 events, unless told otherwise

Needs Chromium, and what `make setup` installs. It prints milliseconds, the median of five.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from statistics import median
from time import perf_counter

from playwright.sync_api import Page, sync_playwright

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.testing import ScriptedModel, call

__all__ = ["main"]

_SCROLLED = """() => new Promise((done) => {
  const times = [];
  let last = performance.now();
  const step = (now) => {
    times.push(now - last);
    last = now;
    scrollBy(0, 120);
    if (times.length < 60) requestAnimationFrame(step); else done(times.slice(5).sort((a, b) => a - b));
  };
  requestAnimationFrame(step);
})"""


@tool(effect=ToolEffect.READ)
def search(query: str) -> str:
    """Search the shelves."""
    return query


def main(steps: int = 6_250) -> int:
    """Measure, and print what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/runs.db"
        made = threading.Thread(target=_build, args=(store, steps))
        made.start()
        made.join()
        command = [sys.executable, "-m", "steptrail", "inspect", "--store", store]
        with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                _measure(process.stdout.readline().split()[4].rstrip("/"))
            finally:
                process.terminate()
    return 0


def _build(store: str, steps: int) -> None:
    script = [*(call("search", query=f"shelf {number}") for number in range(steps)), "It is nowhere."]
    agent = AgentBuilder("long").with_model(ScriptedModel(script)).with_tools(search)
    agent = agent.with_max_steps(steps + 1).with_max_tokens(10**9)
    with Steptrail.open_sync(store, durability="normal") as trail:
        result = trail.run(agent.build(), "Look for it", session="long")
        print(f"{steps} steps, {result.state.version} events")


def _measure(address: str) -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        _say("first, while it is counted and explained", lambda: _open(page, f"{address}/runs/long"), 1)
        page.wait_for_timeout(5_000)
        for name, path in (
            ("the run", "/runs/long"),
            ("a window in the middle", "/runs/long?w=25000"),
            ("an event in the middle", "/runs/long?e=25000"),
            ("the state in the middle", "/state/long?at=25000"),
            ("what an event changed", "/state/long?at=25000&from=24990"),
        ):
            _say(name, lambda path=path: _open(page, address + path), 5)  # type: ignore[misc]
        _open(page, f"{address}/runs/long")
        frames = page.evaluate(_SCROLLED)
        nodes = page.evaluate("document.querySelectorAll('*').length")
        size = page.evaluate("document.documentElement.outerHTML.length")
        print(f"a frame while scrolling: {median(frames):.0f} ms, the slowest of 55 {frames[-1]:.0f} ms")
        print(f"{nodes:,} nodes, {size / 1000:,.0f} kB")
        browser.close()


def _say(name: str, work: Callable[[], None], times: int) -> None:
    took: list[float] = []
    for _ in range(times):
        began = perf_counter()
        work()
        took.append((perf_counter() - began) * 1000)
    print(f"{name}: {median(took):.0f} ms")


def _open(page: Page, address: str) -> None:
    page.goto(address)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
