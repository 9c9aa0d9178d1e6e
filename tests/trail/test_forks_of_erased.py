"""A fork of a session that is erased meanwhile is not opened: nobody could read it."""

from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.errors import ErasureRefused, SessionErased, SessionNotFound
from tests.runner.kit import agent_of


async def test_a_fork_is_not_opened_when_its_past_is_erased_meanwhile(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        await trail.run(agent_of(["Done."]).build(), "go", session="past")
        append = trail.store.append

        async def too_late(*given: Any) -> Any:
            await other.erase("past", by="ann", reason="she asked")
            return await append(*given)

        monkeypatch.setattr(trail.store, "append", too_late)
        with pytest.raises(SessionErased, match="session 'past' was erased by ann"):
            await trail.session("past").fork(session="fork")
        monkeypatch.undo()
        with pytest.raises(SessionNotFound):
            await trail.session("fork").state()
        assert [row.session_id for row in await trail.runs()] == []


async def test_a_past_is_not_erased_when_a_fork_is_there(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent_of(["Done."]).build(), "go", session="past")
        await trail.session("past").fork(session="fork")
        with pytest.raises(ErasureRefused):
            await trail.erase("past", by="ann", reason="she asked")
        assert (await trail.session("fork").state()).status == "completed"
