"""`run` and `start` of the same input at the same moment are one command, and another input is refused."""

from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.errors import CommandRejected
from tests.runner.kit import agent_of


async def run_beside(store_url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str | None, int]:
    """Run "go" while another process starts `said` between our look at the session and our append."""
    agent, is_first = agent_of(["Done.", "Again."]).build(), True
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        append = trail.store.append

        async def behind(*given: Any) -> Any:
            nonlocal is_first
            if is_first:
                is_first = False
                await other.start(agent, said, session="one")
            return await append(*given)

        monkeypatch.setattr(trail.store, "append", behind)
        result = await trail.run(agent, "go", session="one")
        return result.output, result.state.fold.executions


async def test_the_same_input_is_answered_once(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await run_beside(store_url, "go", monkeypatch) == ("Done.", 1)


async def test_another_input_is_refused(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandRejected, match="is pending and answers another input"):
        await run_beside(store_url, "stop", monkeypatch)
