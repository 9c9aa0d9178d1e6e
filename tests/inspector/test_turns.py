"""However much an event says, other requests have the event loop between it and the next one."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from steptrail.domain.kernel.event import Event
from steptrail.interfaces.cli.kinds import summary_of
from tests.inspector.conftest import Opened

HERE = "steptrail.interfaces.http.inspector"


@asynccontextmanager
async def turns() -> AsyncGenerator[Callable[[], int]]:
    """Count the turns of the event loop."""
    count = 0

    async def go_on() -> None:
        nonlocal count
        while True:
            count += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(go_on())
    yield lambda: count
    others.cancel()


@pytest.mark.parametrize(
    ("module", "path", "at_once", "most"),
    [
        ("events", "/runs/failed", 1, 21),
        ("finding", "/find/failed?q=nothing+like+it", 1, 21),
        ("comparing", "/compare?a=failed&b=failed", 2, 10),
    ],
)
async def test_one_event_is_put_into_words_in_a_turn_of_the_loop(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, module: str, path: str, at_once: int, most: int
) -> None:
    async with opened() as client, turns() as turn:
        said = list[int]()

        def noted(stream: str, event: Event) -> str:
            said.append(turn())
            return summary_of(stream, event)

        monkeypatch.setattr(f"{HERE}.{module}.summary_of", noted)
        assert (await client.get(path)).status_code == 200
    assert 0 < len(said) <= most
    assert len(set(said)) * at_once == len(said)
