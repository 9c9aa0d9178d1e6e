"""A `retain` that is told to end, or fails, on the way says first what it has erased by then."""

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.errors import StoreFull
from steptrail.domain.kernel.erasure import Erasure, ErasureReport
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.main import main
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.erasing import erase_stream
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing import ManualClock, ScriptedModel, say


async def _interrupted() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(3600)


async def _full() -> None:
    raise StoreFull("no space left for the store")


@pytest.mark.parametrize(("ending", "code"), [(_interrupted, 130), (_full, 7)])
@pytest.mark.parametrize("as_json", [False, True])
def test_what_was_erased_before_the_end_is_told(
    store_url: str, ending: Any, code: int, as_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build()
    with Steptrail.open_sync(store_url, clock=ManualClock(datetime(2020, 1, 1, tzinfo=UTC))) as trail:
        for name in ("a", "b", "c"):
            trail.run(agent, "hi", session=name)
    calls = list[str]()

    async def twice(environment: Any, stream: str, **given: Any) -> Any:
        calls.append(stream)
        if len(calls) == 3:
            await ending()
        return await erase_stream(environment, stream, **given)

    monkeypatch.setattr("steptrail.interfaces.python.eraser.erase_stream", twice)
    asked = ["retain", "--older-than", "90d", "--yes", "--store", store_url, *(["--json"] if as_json else [])]
    assert main(asked) == code
    said = capsys.readouterr().out
    if as_json:
        told = json.loads(said)
        assert ([each["id"] for each in told["erased"]], told["dryRun"]) == (["c", "b"], False)
        assert "steptrail erase --finish" in told["remains"]
        assert "again" not in told["remains"]
    else:
        assert [line.split()[:2] for line in said.splitlines() if line.startswith("erased")] == [
            ["erased", "c"],
            ["erased", "b"],
        ]
        assert "2 sessions erased" in said
    with Steptrail.open_sync(store_url) as trail:
        assert [row.session_id for row in trail.runs()] == ["a"]


class CutOff:
    """A store that is told to end in the middle of an erasure."""

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self.erasing: asyncio.Task[ErasureReport] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def erase(self, *streams: Any, **said: Any) -> Sequence[Erasure]:
        assert self.erasing is not None
        self.erasing.cancel()
        return await self._store.erase(*streams, **said)


async def test_what_is_being_erased_when_the_end_comes_is_told_too(store_url: str) -> None:
    store, told = CutOff(open_store(store_url)), list[str]()
    clock = ManualClock()
    async with Steptrail(Environment(store=cast("EventStore", store), clock=clock)) as trail:
        await trail.run(AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build(), "hi", session="a")
        clock.advance(2 * 86_400)
        store.erasing = asyncio.create_task(
            trail.retain(
                older_than=timedelta(days=1), dry_run=False, on_erased=lambda erasure: told.append(erasure.stream)
            )
        )
        with pytest.raises(asyncio.CancelledError):
            await store.erasing
        assert await trail.erasure("a") is not None
        assert told == ["agent:a"]
