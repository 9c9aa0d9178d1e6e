"""The watch looks when it is told, when somebody begins to wait and, if others may write, again and again."""

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from steptrail.domain.errors import StoreUnavailable
from steptrail.infrastructure.store.core.log_watch import LogWatch

PATIENCE = 60.0
"""When what should have come is given up, and the test with it."""


class Log:
    """A log that is only its end, and knows how often somebody looked for it."""

    def __init__(self) -> None:
        self.end, self.looks = 0, 0
        self.broken: Exception | None = None
        self.looked = threading.Semaphore(0)

    def __call__(self) -> int:
        self.looks += 1
        try:
            if self.broken is not None:
                raise self.broken
            return self.end
        finally:
            self.looked.release()


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def told(log: Log) -> Iterator[LogWatch]:
    """A watch of a log that nobody else writes to."""
    watch = LogWatch(log, poll=None)
    yield watch
    watch.close()


def test_given_nobody_who_waits_then_there_is_no_thread_and_no_look(log: Log, told: LogWatch) -> None:
    before = threading.active_count()
    told.look()
    assert (threading.active_count(), log.looks) == (before, 0)


def test_given_many_who_wait_then_one_thread_looks_and_each_is_told_past_its_position(log: Log, told: LogWatch) -> None:
    before = threading.active_count()
    waits = [told.past(position) for position in range(5)]
    assert threading.active_count() == before + 1
    log.end = 3
    told.look()
    assert [wait.result(PATIENCE) for wait in waits[:3]] == [3, 3, 3]
    assert not any(wait.done() for wait in waits[3:])
    log.end = 7
    told.look()
    assert [wait.result(PATIENCE) for wait in waits[3:]] == [7, 7]


def test_given_nothing_new_then_it_looks_once_for_each_reason_and_tells_nobody(log: Log, told: LogWatch) -> None:
    wait = told.past(0)
    assert log.looked.acquire(timeout=PATIENCE)
    told.look()
    assert log.looked.acquire(timeout=PATIENCE)
    assert (log.looks, wait.done()) == (2, False)


def test_given_others_who_write_then_it_finds_out_by_itself(log: Log) -> None:
    watch = LogWatch(log, poll=0.001)
    wait = watch.past(0)
    assert log.looked.acquire(timeout=PATIENCE)
    log.end = 1
    assert wait.result(PATIENCE) == 1
    watch.close()


def test_given_others_who_seem_quiet_then_it_looks_only_for_a_reason_until_they_are_not(log: Log) -> None:
    asked, is_quiet = threading.Semaphore(0), True

    def quiet() -> bool:
        asked.release()
        return is_quiet

    watch = LogWatch(log, poll=0.001, is_quiet=quiet)
    wait = watch.past(0)
    assert log.looked.acquire(timeout=PATIENCE)
    for _ in range(5):
        assert asked.acquire(timeout=PATIENCE)
    assert log.looks == 1
    watch.look()
    assert log.looked.acquire(timeout=PATIENCE)
    assert (log.looks, wait.done()) == (2, False)
    log.end, is_quiet = 1, False
    assert wait.result(PATIENCE) == 1
    watch.close()


def test_given_a_look_that_fails_then_those_who_wait_learn_why_and_the_next_is_served(log: Log, told: LogWatch) -> None:
    log.broken = OSError("no such disk")
    with pytest.raises(OSError, match="no such disk"):
        told.past(0).result(PATIENCE)
    log.broken, log.end = None, 1
    assert told.past(0).result(PATIENCE) == 1


def test_given_a_wait_that_was_given_up_then_the_others_are_told(log: Log, told: LogWatch) -> None:
    given_up, kept = told.past(0), told.past(0)
    assert given_up.cancel()
    log.end = 1
    told.look()
    assert kept.result(PATIENCE) == 1


def test_given_a_watch_that_is_closed_then_who_waits_and_who_comes_learn_it(log: Log, told: LogWatch) -> None:
    wait = told.past(0)
    told.close()
    told.close()
    for each in (wait, told.past(0)):
        with pytest.raises(StoreUnavailable, match="closed"):
            each.result(PATIENCE)


def test_given_a_wait_that_was_given_up_then_nothing_is_kept_of_it(log: Log, told: LogWatch) -> None:
    given_up = told.past(0)
    gone = weakref.ref(given_up)
    given_up.cancel()
    del given_up
    kept = told.past(0)
    for _ in range(3):
        # After each look whoever gave up is left out; the next look shows that the one before is over.
        told.look()
        assert log.looked.acquire(timeout=PATIENCE)
    gc.collect()
    assert gone() is None
    assert not kept.done()
