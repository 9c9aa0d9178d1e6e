"""The collector of cycles and reading: it stays away meanwhile, and is left as it was found."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from steptrail.domain.errors import CorruptRecord
from steptrail.domain.kernel.record import EMPTY_STREAM
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.blobs import read_record
from steptrail.testing.store_contract import Noted, commit_of


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether the collector was on at each record that was read."""
    states: list[bool] = []

    def noting(*arguments: Any) -> Any:
        states.append(gc.isenabled())
        if arguments[2] == 3:
            raise CorruptRecord(arguments[1], 3, arguments[3], "it is the third")
        return read_record(*arguments)

    monkeypatch.setattr("steptrail.infrastructure.store.core.reading.read_record", noting)
    yield states
    gc.enable()


async def read(events: int) -> bool:
    """Store events and read them; return whether the collector was on afterwards."""
    store = open_store("sqlite:///:memory:")
    try:
        await store.append("agent:a", EMPTY_STREAM, commit_of("c1", *(Noted() for _ in range(events))))
        await store.read("agent:a")
    except CorruptRecord:
        return gc.isenabled()
    finally:
        await store.close()
    return gc.isenabled()


@pytest.mark.parametrize("events", [2, 3], ids=["whole", "with a damaged record"])
def test_given_a_collector_that_is_on_then_it_is_off_while_records_are_made_and_on_again(
    seen: list[bool], events: int
) -> None:
    assert asyncio.run(read(events)) is True
    assert seen == [False] * events


def test_given_a_service_that_turned_it_off_then_it_stays_off(seen: list[bool]) -> None:
    gc.disable()
    assert asyncio.run(read(2)) is False
    assert seen == [False, False]
