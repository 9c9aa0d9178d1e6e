"""How often all is counted anew without what was erased follows from how long the log is, not from the erasures."""

import asyncio
from collections.abc import Callable, Sequence, Set

import pytest

from steptrail.domain.errors import StoreUnavailable, ViewsBusy
from steptrail.infrastructure.views.counting_anew import is_outdated, keep_exact
from steptrail.infrastructure.views.generation import Erasures, Reached, ViewProgress

_SECOND = 1_000_000
_MILLION = 1_000_000
_GENERATION = 7


def book(since: int | None, *, name: str = "runs", version: int = 2) -> ViewProgress:
    """Return how a projection stands of which something was erased at an instant, if at any."""
    erased = Erasures() if since is None else Erasures(1, since)
    return ViewProgress(name, version, Reached(_MILLION), erased, None, None, 0, 0, 0)


class Kept:
    """Keeps read models of a million positions going for so many looks, and notes when all is counted anew.

    The clock is what was rested. `books` says how they stand, given what was counted anew already and the clock.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, books: Callable[[list[int], int], Sequence[ViewProgress]]
    ) -> None:
        self.anew, self.now, self._books = list[int](), 0, books
        self.may_stop: Set[str] = frozenset()
        self.instead_of: int | None = None
        monkeypatch.setattr("steptrail.infrastructure.views.counting_anew.asyncio.sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += round(seconds * _SECOND)

    async def go(self, seconds: int, error: Exception | None = None) -> None:
        async def rebuild(may_stop: Set[str], instead_of: int) -> None:
            self.anew.append(self.now)
            self.may_stop, self.instead_of = may_stop, instead_of
            if error is not None:
                raise error

        async def books() -> tuple[Sequence[ViewProgress], int, int]:
            if self.now > seconds * _SECOND:
                raise asyncio.CancelledError
            return self._books(self.anew, self.now), _GENERATION, 0

        with pytest.raises(asyncio.CancelledError):
            await keep_exact(books, rebuild, {"runs": 2, "own": 1}, lambda: self.now)


def test_a_short_log_is_counted_anew_by_who_asks() -> None:
    assert is_outdated(book(5), 20_000)
    assert not is_outdated(book(5), 20_001)
    assert not is_outdated(book(None), 1)


async def test_a_million_positions_are_counted_anew_at_most_every_thousand_seconds_however_often_something_is_erased(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept(monkeypatch, lambda anew, now: [book(max(anew, default=0))])
    await kept.go(10_000)
    assert kept.anew == [second * _SECOND for second in range(1_000, 10_000, 1_010)]


async def test_a_clock_that_is_behind_has_nothing_counted_anew_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch, lambda anew, now: [book(now - 5_000 * _SECOND)])
    await kept.go(10_000)
    assert len(kept.anew) == 10


async def test_what_was_erased_by_a_clock_that_was_a_day_ahead_does_not_stay_in_sums_for_that_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = Kept(monkeypatch, lambda anew, now: [] if anew else [book(86_400 * _SECOND)])
    await kept.go(2_000)
    assert kept.anew == [10 * _SECOND]


async def test_only_a_projection_that_has_stopped_already_may_stop_in_the_generation_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stopped = book(None, name="own", version=1)._replace(error_position=7, error="bad")
    kept = Kept(monkeypatch, lambda anew, now: [book(0), stopped])
    await kept.go(1_500)
    assert (kept.may_stop, kept.instead_of) == ({"own"}, _GENERATION)


async def test_nothing_is_counted_anew_where_nothing_was_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(monkeypatch, lambda anew, now: [book(None), book(None, name="own", version=1)])
    await kept.go(10_000)
    assert kept.anew == []


async def test_the_first_of_all_erasures_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    books = [book(500 * _SECOND), book(100 * _SECOND, name="own", version=1), book(0, version=1)]
    kept = Kept(monkeypatch, lambda anew, now: [] if anew else books)
    await kept.go(3_000)
    assert kept.anew == [1_100 * _SECOND]


@pytest.mark.parametrize("other", [book(None, name="others"), book(None, version=3)])
async def test_what_others_have_is_not_taken_from_them(monkeypatch: pytest.MonkeyPatch, other: ViewProgress) -> None:
    kept = Kept(monkeypatch, lambda anew, now: [book(0), other])
    await kept.go(10_000)
    assert kept.anew == []


async def test_a_failure_is_said_seldom_and_tried_again_when_as_much_time_has_passed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(monkeypatch, lambda anew, now: [book(0)])
    await kept.go(10_000, StoreUnavailable("no such disk"))
    assert len(kept.anew) == 9
    assert [record.message.startswith("what was erased stays in sums for now") for record in caplog.records] == [
        True
    ] * 4
    assert "cannot be counted anew: no such disk" in caplog.text


async def test_of_read_models_that_cannot_be_asked_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(anew: list[int], now: int) -> Sequence[ViewProgress]:
        if now > 500 * _SECOND:
            return [book(0)]
        raise StoreUnavailable("away")

    kept = Kept(monkeypatch, away)
    await kept.go(1_500)
    assert kept.anew == [1_000 * _SECOND]
    assert caplog.records == []


async def test_what_somebody_else_is_at_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(monkeypatch, lambda anew, now: [] if len(anew) > 2 else [book(0)])
    await kept.go(2_000, ViewsBusy("another host"))
    assert kept.anew == [1_000 * _SECOND, 1_010 * _SECOND, 1_020 * _SECOND]
    assert caplog.records == []
