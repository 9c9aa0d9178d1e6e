"""`run` and `start` of the same input at the same moment are one command, and another input is refused."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.errors import CommandRejected
from steptrail.workflow import Envelope, Workflow
from tests.runner.kit import agent_of


def double(envelope: Envelope) -> str:
    return f"{envelope.input} twice"


def put_before(trail: Steptrail, work: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something done by another process between the next look at a session and the append behind it."""
    append, is_first = trail.store.append, True

    async def behind(*given: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            await work()
        return await append(*given)

    monkeypatch.setattr(trail.store, "append", behind)


async def run_beside(
    store_url: str, said: str, monkeypatch: pytest.MonkeyPatch, key: str | None = None
) -> tuple[str | None, int]:
    """Run "go" while another process starts `said`."""
    agent = agent_of(["Done.", "Again."]).build()
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        put_before(trail, lambda: other.start(agent, said, session="one", key=key), monkeypatch)
        result = await trail.run(agent, "go", session="one", key=key)
        return result.output, result.state.fold.executions


@pytest.mark.parametrize("key", [None, "k"])
async def test_the_same_input_is_answered_once(
    store_url: str, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    assert await run_beside(store_url, "go", monkeypatch, key) == ("Done.", 1)


@pytest.mark.parametrize("key", [None, "k"])
async def test_the_same_input_of_a_workflow_is_answered_once(
    store_url: str, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    flow = Workflow("double", result="it").function("double", double, output="it").build()
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        put_before(trail, lambda: other.start(flow, 2, session="one", key=key), monkeypatch)
        result = await trail.run(flow, 2, session="one", key=key)
        assert (result.status, result.output) == ("completed", "2 twice")


async def test_a_message_and_a_retry_that_another_process_leaves_to_a_worker_are_answered_once(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = agent_of([ValueError("no"), "Done.", "Again."]).build()
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        ours, theirs = trail.session("one"), other.session("one")
        await trail.run(agent, "go", session="one")
        put_before(trail, lambda: theirs.requeue(key="retry"), monkeypatch)
        assert (await ours.retry(agent, key="retry")).output == "Done."
        put_before(trail, lambda: theirs.post(agent, "And?", key="message"), monkeypatch)
        result = await ours.send(agent, "And?", key="message")
        assert (result.output, result.state.fold.executions) == ("Again.", 3)


async def test_another_input_is_refused(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandRejected, match="is pending and answers another input"):
        await run_beside(store_url, "stop", monkeypatch)
