"""Make the pictures of the guide to the inspector: a week of runs, `steptrail inspect` over them, and a browser.

python scripts/inspector_pictures.py    write docs/guides/pictures/inspector-*.png

Needs Chromium, and what `make setup` installs.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Page, sync_playwright

from steptrail import Agent, AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.domain.inference import ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import PriceTable
from steptrail.domain.usage import Usage
from steptrail.testing import ManualClock, Reply, ScriptedModel, calls, say
from steptrail.tools import ApprovalRule

_ROOT = Path(__file__).parents[1]
_PLACE = _ROOT / "docs" / "guides" / "pictures"
_MOST_BYTES: Final = 150_000
_DAYS: Final = 7
_PRICES = PriceTable.of({"scripted": {"input": "2.5", "output": "10"}}, version="picture")


class _Picture(NamedTuple):
    name: str
    path: str
    height: int
    scheme: str = "light"
    width: int = 1180


_PICTURES: Final = (
    _Picture("overview", "/", 620),
    _Picture("run", "/runs/tea-77", 900),
    _Picture("state", "/runs/tea-77?at=20&from=12#state", 560),
    _Picture("stats", "/stats", 760),
    _Picture("failures", "/failures", 420),
    _Picture("compare", "/compare?a=tea-77&b=tea-76", 800),
    _Picture("inbox", "/inbox", 560, "dark"),
    _Picture("narrow", "/runs/tea-77", 844, "dark", 390),
)


@tool(effect=ToolEffect.READ)
def search(query: str) -> object:
    """Search the shelves."""
    _CLOCK.advance(_RANDOM.uniform(0.1, 0.9))
    return {"query": query, "found": ["order A-7, two boxes"]}


@tool(effect=ToolEffect.KEYED)
def refund(order: str, cents: int) -> str:
    """Refund an order."""
    _CLOCK.advance(_RANDOM.uniform(0.2, 1.2))
    if order == "A-9":
        raise KeyError("A-9")
    if order == "A-8":
        raise ConnectionError("the bank answered 503 for order A-8")
    return f"{cents} cents of order {order} refunded"


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=72 * 3600, reason="more than 100 euros"))
def refund_much(order: str, cents: int, to: str) -> str:
    """Refund a large order."""
    return f"{cents} cents of order {order} refunded to {to}"


_RANDOM = random.Random(7)  # noqa: S311 - the same pictures again
_CLOCK = ManualClock(datetime.now(UTC) - timedelta(days=_DAYS - 1, hours=2))


def main() -> int:
    """Make all pictures, and say how large each is. Fails for one that is too large."""
    _PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/runs.db"
        made = threading.Thread(target=_build, args=(store,))
        made.start()
        made.join()
        with _served(folder) as address:
            sizes = _taken(address)
    for name, size in sizes.items():
        print(f"{name}: {size / 1000:.0f} kB")
    return int(any(size > _MOST_BYTES for size in sizes.values()))


def _desk(name: str, *script: ModelReply) -> Agent:
    thought = [_slowly(each) for each in script]
    agent = AgentBuilder(name).with_model(ScriptedModel(thought)).with_tools(search, refund, refund_much)
    return agent.with_prices(_PRICES).build()


def _slowly(reply: ModelReply) -> Reply:
    """Return the reply of a model that takes its time."""

    def replied(request: ModelRequest) -> ModelReply:
        assert request.messages
        _CLOCK.advance(_RANDOM.uniform(0.4, 2.5))
        return reply

    return replied


def _build(store: str) -> None:
    used = Usage(input=1_240, output=160)
    with Steptrail.open_sync(store, clock=_CLOCK) as trail:
        number, began = 30, _CLOCK.utc()
        for day in range(_DAYS):
            _CLOCK.reach(began + day * 86_400_000_000)
            for _ in range(_RANDOM.randrange(4, 9)):
                order = "A-9" if _RANDOM.random() < 0.08 + 0.02 * day else f"A-{_RANDOM.randrange(1, 9)}"
                script = (
                    calls(("search", {"query": f"order {order}"}), usage=used),
                    calls(("refund", {"order": order, "cents": 450}), usage=used),
                    say("It is refunded.", usage=used),
                )
                trail.run(_desk("desk", *script), f"Refund order {order}", session=f"tea-{number}")
                question = _desk(
                    "shelf", calls(("search", {"query": "tea"}), usage=used), say("On shelf 4.", usage=used)
                )
                trail.run(question, "Where is the tea?", session=f"shelf-{number}")
                number += 1
                _CLOCK.advance(_RANDOM.uniform(60, 700))
        found, done = (calls(("search", {"query": "order A-4"}), usage=used),), say("It is refunded.", usage=used)
        good = (*found, calls(("refund", {"order": "A-4", "cents": 450}), usage=used), done)
        trail.run(_desk("desk", *good), "Refund order A-4", session="tea-76")
        bad = (*found, calls(("refund", {"order": "A-9", "cents": 450}), usage=used), done)
        trail.run(_desk("desk", *bad), "Refund order A-4", session="tea-77")
        large: dict[str, JsonValue] = {"order": "A-3", "cents": 18_900, "to": "Ana"}
        trail.run(_desk("desk", calls(("refund_much", large), usage=used)), "Refund order A-3", session="tea-78")


@contextmanager
def _served(folder: str) -> Generator[str]:
    options = ["--store", "sqlite:///runs.db", "--allow-actions", "--by", "ana"]
    command = [sys.executable, "-m", "steptrail", "inspect", *options]
    with subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[4].rstrip("/")
        finally:
            process.terminate()


def _taken(address: str) -> dict[str, int]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    sizes: dict[str, int] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for picture in _PICTURES:
            size = {"width": picture.width, "height": picture.height}
            context = browser.new_context(
                viewport={"width": size["width"], "height": size["height"]},
                color_scheme="dark" if picture.scheme == "dark" else "light",
            )
            page = context.new_page()
            page.goto(address + picture.path)
            _settled(page)
            file = _PLACE / f"inspector-{picture.name}.png"
            page.screenshot(path=file)
            sizes[file.name] = file.stat().st_size
            context.close()
        browser.close()
    return sizes


def _settled(page: Page) -> None:
    page.wait_for_load_state("load")
    line = page.locator("#line")
    if page.locator("body[data-live]").count():
        line.get_by_text("Live.").wait_for()


if __name__ == "__main__":
    sys.exit(main())
