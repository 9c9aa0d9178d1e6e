"""Measure the inspector in a browser: how soon the parts of a long run open, how it scrolls, and lists of many runs.

python -m scripts.inspector_speed [STEPS] [RUNS]

Unless told otherwise the run has 6,250 steps, some 50,000 events, and there are 100,000 runs.

The rows of the many runs are made as the tests make them; no log stands behind them.

Needs Chromium, and what `make setup` installs. It prints milliseconds, the median of five.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter

from playwright.sync_api import Page, sync_playwright

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.testing import ScriptedModel, call
from tests.harness.asked_views import AskedViews

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


def main(steps: int = 6_250, runs: int = 100_000) -> int:
    """Measure, and print what was measured."""
    with tempfile.TemporaryDirectory() as folder:
        _of(f"sqlite:///{folder}/long.db", lambda store: _build(store, steps), _measure_run)
        _of(f"sqlite:///{folder}/many.db", lambda store: _fill(store, runs), _measure_lists)
    return 0


def _of(store: str, build: Callable[[str], None], measure: Callable[[Page, str], None]) -> None:
    """Build a store, and measure the pages of the inspector over it."""
    made = threading.Thread(target=build, args=(store,))
    made.start()
    made.join()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    command = [sys.executable, "-m", "steptrail", "inspect", "--store", store]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process, sync_playwright() as playwright:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[4].rstrip("/")
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            measure(browser.new_page(viewport={"width": 1280, "height": 900}), address)
            browser.close()
        finally:
            process.terminate()


def _build(store: str, steps: int) -> None:
    script = [*(call("search", query=f"shelf {number}") for number in range(steps)), "It is nowhere."]
    agent = AgentBuilder("long").with_model(ScriptedModel(script)).with_tools(search)
    agent = agent.with_max_steps(steps + 1).with_max_tokens(10**9)
    with Steptrail.open_sync(store, durability="normal") as trail:
        result = trail.run(agent.build(), "Look for it", session="long")
        print(f"{steps} steps, {result.state.version} events")


def _fill(store: str, runs: int) -> None:
    AskedViews(store, runs, of=runs).close()
    print(f"{runs} runs")


def _measure_run(page: Page, address: str) -> None:
    _say("first, while it is counted and explained", lambda: _open(page, f"{address}/runs/long"), 1)
    _open(page, f"{address}/health")
    while "up to date" not in page.locator("main").inner_text():  # while it counts, it takes time from the pages
        page.wait_for_timeout(1_000)
        page.reload()
    page.wait_for_timeout(3_000)  # until what was trusted is proven
    paths = {
        "the run": "/runs/long",
        "its execution by its number": "/runs/long/1",
        "a window in the middle": "/runs/long?w=25000",
        "its slow bars": "/runs/long?w=25000&bars=slow",
        "an event in the middle": "/runs/long?e=25000",
        "the state in the middle": "/state/long?at=25000",
        "what an event changed": "/state/long?at=25000&from=24990",
        "find, nothing in a part": "/find/long?q=nowhere&first=25000",
        "find, a part full of it": "/find/long?q=shelf&first=25000",
        "the run as JSON": "/why/long",
    }
    _say_each(page, address, paths)
    _open(page, f"{address}/runs/long")
    frames = page.evaluate(_SCROLLED)
    nodes = page.evaluate("document.querySelectorAll('*').length")
    size = page.evaluate("document.documentElement.outerHTML.length")
    print(f"a frame while scrolling: {median(frames):.0f} ms, the slowest of 55 {frames[-1]:.0f} ms")
    print(f"{nodes:,} nodes, {size / 1000:,.0f} kB")


def _measure_lists(page: Page, address: str) -> None:
    since = "since=9000d"  # the first of these runs began in 2024
    paths = {
        "a list of all": f"/runs?{since}",
        "the dearest": "/runs?order=dearest",
        "those where a tool failed": "/runs?tool=refund",
        "three filters": f"/runs?status=failed&agent=desk&{since}",
        "the failures": f"/failures?{since}",
        "the sums": f"/stats?{since}",
    }
    _say_each(page, address, paths)


def _say_each(page: Page, address: str, paths: Mapping[str, str]) -> None:
    for name, path in paths.items():
        _say(name, lambda path=path: _open(page, address + path), 5)  # type: ignore[misc]


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
