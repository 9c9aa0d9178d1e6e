"""Nothing is begun on a session that is erased meanwhile: no fork of it, none into its id, and no session below it."""

from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.errors import ErasureRefused, SessionErased, SessionNotFound
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.examination import examine
from steptrail.testing import ScriptedModel, call
from steptrail.tools import SubagentTool
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


async def test_a_subagent_of_a_session_that_is_erased_before_it_begins_does_nothing(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the process of the caller stands still for longer than its lease lasts."""
    paid = list[int]()

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    inner = AgentBuilder("inner").with_model(ScriptedModel([call("pay", amount=3), "Paid."])).with_tools(pay).build()
    outer = agent_of([call("inner", prompt="pay"), "Done."]).with_tools(SubagentTool(inner)).build()
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        append = trail.store.append

        async def too_late(stream: str, *given: Any) -> Any:
            if stream.startswith("agent:child-") and await other.erasure("s") is None:
                version = await other.store.version("agent:s")
                await other.store.erase({"agent:s": version}, at=1, by="ann", reason="she asked")
            return await append(stream, *given)

        monkeypatch.setattr(trail.store, "append", too_late)
        with pytest.raises(SessionErased, match="session 's' was erased by ann"):
            await trail.run(outer, "go", session="s")
        assert not paid
        assert await trail.runs() == []
        assert await trail.store.streams("agent:") == ["agent:s"]


async def test_a_past_is_not_erased_when_a_fork_is_there(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent_of(["Done."]).build(), "go", session="past")
        await trail.session("past").fork(session="fork")
        with pytest.raises(ErasureRefused):
            await trail.erase("past", by="ann", reason="she asked")
        assert (await trail.session("fork").state()).status == "completed"


async def test_a_fork_into_the_id_of_an_erased_session_says_that_it_was_erased(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        for name in ("past", "gone"):
            await trail.run(agent_of(["Done."]).build(), "go", session=name)
        await trail.erase("gone", by="ann", reason="she asked")
        with pytest.raises(SessionErased, match="session 'gone' was erased by ann"):
            await trail.session("past").fork(session="gone")


async def test_the_doctor_takes_no_fork_for_damaged_that_is_erased_with_its_past_while_it_looks(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent_of(["Done."]).build(), "go", session="past")
        await trail.session("past").fork(session="fork")
        store = open_store(store_url)
        digest = store.digest

        async def too_late(*given: Any) -> bytes:
            await trail.erase("past", by="ann", reason="she asked", cascade=True)
            return await digest(*given)

        monkeypatch.setattr(store, "digest", too_late)
        seen = await examine(store)
        await store.close()
        assert await trail.erasure("fork") is not None
        assert seen.findings == []
