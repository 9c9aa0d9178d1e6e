"""What tests of one store are written with."""

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from steptrail.domain.kernel.record import EMPTY_STREAM, StreamHead
from steptrail.infrastructure.store.core.durability import Durability
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.infrastructure.store.core.lease import FileLeases
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.store.sqlite import connections
from steptrail.testing.store_contract import Noted, commit_of

T = TypeVar("T")


async def use(store: RecorderEventStore, work: Callable[[RecorderEventStore], Awaitable[T]]) -> T:
    """Do something with a store and close it."""

    try:
        return await work(store)
    finally:
        await store.close()


def url(path: Path) -> str:
    """Return the address of a store in this file."""
    return f"sqlite:///{path}"


def opened(path: Path, *, quick: float, durability: Durability = "full") -> RecorderEventStore:
    """Open a store that holds any write for quick that took less than `quick` seconds."""
    recorder = open_store(url(path), durability=durability).recorder
    return RecorderEventStore(recorder, FileLeases(path, patience=3600), name=str(path), quick=quick)


def note_statements(monkeypatch: pytest.MonkeyPatch, note: Callable[[str], object]) -> None:
    """Have `note` called with each statement that SQLite carries out on a connection that a store opens from now on."""
    really = connections.connect

    def connect(uri: str) -> sqlite3.Connection:
        connection = really(uri)
        connection.set_trace_callback(note)
        return connection

    monkeypatch.setattr(connections, "connect", connect)


async def add(store: RecorderEventStore) -> StreamHead:
    """Append one event to a stream of its own."""
    return await store.append("agent:a", EMPTY_STREAM, commit_of("c1", Noted(text="kept")))


async def texts(store: RecorderEventStore) -> list[str]:
    """Return what the events of that stream say."""
    records = (await store.read("agent:a")).records
    return [record.event.text for record in records if isinstance(record.event, Noted)]


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
