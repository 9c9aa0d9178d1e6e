"""Two who take the same lease: whatever the order of their looks and writes, one has it."""

import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import SessionBusy, StoreLocked
from steptrail.infrastructure.store.core.lease import FileLeases, HeldLease

_MOVES = 20
"""More looks and writes than one of them makes."""


class Taker:
    """Takes a lease in a thread of its own. Stands still before each look, write and removal, and after each write."""

    def __init__(self, leases: FileLeases) -> None:
        self._leases = leases
        self.lease: HeldLease | None = None
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._take, daemon=True)
        self._has_ended = False

    def begin(self) -> None:
        """Go to the first look."""
        self.thread.start()
        self._stands.acquire()

    def move(self) -> None:
        """Make one look or write, and go to the next, if there is one."""
        if not self._has_ended:
            self._go.release()
            self._stands.acquire()

    def stand_still(self) -> None:
        """Wait for the next `move`."""
        self._stands.release()
        self._go.acquire()

    def _take(self) -> None:
        with suppress(SessionBusy, StoreLocked):
            self.lease = self._leases.acquire("agent:a", "somebody", take_over=False)
        self._has_ended = True
        self._stands.release()


@contextmanager
def taking_turns(takers: list[Taker], monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Have takers stand still where they look or write."""
    of_threads, write = {taker.thread: taker for taker in takers}, Path.write_bytes

    def gated(really: Callable[..., Any]) -> Callable[..., Any]:
        def waiting(*given: Any, **how: Any) -> Any:
            taker = of_threads.get(threading.current_thread())
            if taker is not None:
                taker.stand_still()
            found = really(*given, **how)
            if taker is not None and really is write:
                taker.stand_still()
            return found

        return waiting

    with monkeypatch.context() as patched:
        for owner, name in ((os, "listdir"), (Path, "write_bytes"), (Path, "unlink")):
            patched.setattr(owner, name, gated(getattr(owner, name)))
        yield


def granted_to(two: list[FileLeases], order: set[int], monkeypatch: pytest.MonkeyPatch) -> list[HeldLease]:
    """Have both take the lease, the second at the moves in `order`; return what was granted."""
    takers = [Taker(leases) for leases in two]
    with taking_turns(takers, monkeypatch):
        for taker in takers:
            taker.begin()
        for move in range(8):
            takers[move in order].move()
        for _ in range(_MOVES):
            for taker in takers:
                taker.move()
    return [taker.lease for taker in takers if taker.lease is not None]


@pytest.fixture(params=["two stores", "one store"])
def two(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[FileLeases]]:
    """What two takers have, which took a lease before: so neither needs the guard for its lock."""
    made = [FileLeases(tmp_path / "runs.db", patience=0) for _ in range(2 if request.param == "two stores" else 1)]
    for leases in made:
        leases.acquire("agent:first", "somebody", take_over=False).release()
    yield [made[0], made[-1]]
    for leases in made:
        leases.close()


def first_moves() -> list[tuple[int, ...]]:
    """Return all orders of eight moves, four of each: what comes after them is made under the guard."""
    return list(combinations(range(8), 4))


@pytest.mark.parametrize("order", first_moves())
def test_whatever_the_order_of_looks_and_writes_then_at_most_one_has_the_lease(
    two: list[FileLeases], order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = granted_to(two, set(order), monkeypatch)
    assert len(granted) <= 1
    seen = two[0].seen("agent:a")
    assert seen is not None
    assert [each.is_live for each in seen] == [True] * len(granted)
    for lease in granted:
        lease.release()
    two[1].acquire("agent:a", "somebody", take_over=False).release()
