"""The blocking twin of a subscription: an iterator that other threads feed and end."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.domain.errors import ConfigurationError, StoreUnavailable
from steptrail.events import ExecutionFinished, LogEntry
from steptrail.interfaces.python.sync import SyncSteptrail, SyncSubscription
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import ScriptedModel, call

PATIENCE = 60.0
"""When a thread that should have ended is given up, and the test with it."""


def greeter() -> Agent:
    return AgentBuilder("greeter").with_model(ScriptedModel(["hello"])).build()


class Consumer(threading.Thread):
    """Takes entries until the iteration ends; `has_come` is set when the first has come."""

    def __init__(self, entries: SyncSubscription) -> None:
        super().__init__(daemon=True)
        self.entries, self.seen, self.has_come = entries, list[LogEntry](), threading.Event()
        self.failed: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for entry in self.entries:
                self.seen.append(entry)
                self.has_come.set()
        except BaseException as error:
            self.failed = error

    def ended(self) -> list[LogEntry]:
        self.join(PATIENCE)
        assert not self.is_alive()
        assert self.failed is None
        return self.seen


def test_given_stored_events_then_a_plain_loop_reads_them(store_url: str) -> None:
    with Steptrail.open_sync(store_url) as trail:
        trail.run(greeter(), "hi", session="a")
        entries = list(trail.subscribe(follow=False))
        assert [entry.record for entry in entries] == list(trail.session("a").events())
        assert list(trail.subscribe(entries[3].position, follow=False)) == entries[4:]
        last = list(trail.subscribe(types=[ExecutionFinished.TYPE], session="a", follow=False))
        assert last == entries[-1:]


def test_given_a_consumer_in_a_thread_then_a_run_reaches_it_and_leaving_the_block_ends_it(store_url: str) -> None:
    with Steptrail.open_sync(store_url) as trail:
        trail.run(greeter(), "hi", session="before")
        with trail.subscribe("now") as entries:
            consumer = Consumer(entries)
            trail.run(greeter(), "hi", session="a")
            assert consumer.has_come.wait(PATIENCE)
            while len(consumer.seen) < len(trail.session("a").events()):
                assert consumer.is_alive()
        assert {entry.id for entry in consumer.ended()} == {"a"}


def test_given_a_trail_that_is_closed_then_the_consumer_ends_and_no_thread_is_left(store_url: str) -> None:
    before = set(threading.enumerate())
    with Steptrail.open_sync(store_url) as trail:
        trail.run(greeter(), "hi", session="a")
        consumer = Consumer(trail.subscribe())
        assert consumer.has_come.wait(PATIENCE)
    consumer.ended()
    assert set(threading.enumerate()) <= before
    assert list(consumer.entries) == []
    consumer.entries.close()


def test_given_several_threads_on_one_subscription_then_each_event_goes_to_one_of_them(store_url: str) -> None:
    with Steptrail.open_sync(store_url) as trail:
        for i in range(100):
            trail.run(greeter(), "hi", session=f"s{i}")
        everything = list(trail.subscribe(follow=False))
        entries = trail.subscribe(follow=False)
        consumers = [Consumer(entries) for _ in range(4)]
        seen = [entry for consumer in consumers for entry in consumer.ended()]
        assert sorted(entry.position for entry in seen) == [entry.position for entry in everything]


def test_given_a_running_loop_then_the_blocking_iterator_refuses(store_url: str) -> None:
    with Steptrail.open_sync(store_url) as trail:
        entries = trail.subscribe()

        async def ask() -> None:
            next(entries)

        with pytest.raises(ConfigurationError, match="running event loop"):
            asyncio.run(ask())


def test_given_a_run_of_another_thread_then_closing_the_trail_ends_it_and_says_so(store_url: str) -> None:
    working = threading.Event()

    @tool
    async def endless() -> str:
        """Never end."""
        working.set()
        await asyncio.Event().wait()
        return ""

    agent = AgentBuilder("stuck").with_model(ScriptedModel([call("endless")])).with_tools(endless).build()
    ended: Future[BaseException | None] = Future()

    def run(trail: SyncSteptrail) -> None:
        try:
            trail.run(agent, "hi", session="a")
            ended.set_result(None)
        except BaseException as error:
            ended.set_result(error)

    with Steptrail.open_sync(store_url) as trail:
        thread = threading.Thread(target=run, args=(trail,), daemon=True)
        thread.start()
        assert working.wait(PATIENCE)
    error = ended.result(PATIENCE)
    assert isinstance(error, StoreUnavailable)
    assert "closed" in str(error)
    thread.join()
