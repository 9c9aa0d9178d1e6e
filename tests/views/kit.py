"""Opens a store and read models of it, and makes the agent of a few runs, for tests."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest

from steptrail import Agent, AgentBuilder, ToolEffect, tool
from steptrail.domain.kernel.log_page import LogEntry
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.views.database import Statements
from steptrail.infrastructure.views.fold_memory import FoldMemory
from steptrail.infrastructure.views.opening import open_series
from steptrail.infrastructure.views.views import Views
from steptrail.projections.kernel.face import Face, view_of
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Table
from steptrail.runtime.kernel.ports import EventStore
from steptrail.testing import ScriptedModel, call, say
from tests.views.counting import NOTES, STREAMS, TOTALS, Counting

FACE = Face(1, tuple(view_of(table, "0.1") for table in (STREAMS, NOTES, TOTALS)))


@asynccontextmanager
async def viewed(
    url: str, *projections: Projection[Any], face: Face = FACE, read_only: bool = False, **settings: Any
) -> AsyncGenerator[tuple[EventStore, Views]]:
    """Open a store and its read models: those of `Counting`, unless others are given."""
    store = open_store(url, read_only=read_only)
    views = Views(store, open_series(store), projections or (Counting(),), face, **settings)
    try:
        yield store, views
    finally:
        await views.close()
        await store.close()


def folded_again(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return a list that grows by each stream whose past is folded again from now on, and by how many entries."""
    refold, again = FoldMemory[Any].refold, list[tuple[str, int]]()

    def noted(memory: FoldMemory[Any], stream: str, entries: Sequence[LogEntry]) -> None:
        again.append((stream, len(entries)))
        refold(memory, stream, entries)

    monkeypatch.setattr(FoldMemory, "refold", noted)
    return again


def elsewhere(work: Callable[[], Coroutine[Any, Any, object]]) -> None:
    """Do something in a loop of another thread, to its end, while this one stands still."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


async def rows(views: Views, table: Table) -> list[tuple[Any, ...]]:
    """Return the rows of a table in the order of the key."""
    columns = ", ".join(f'"{column.name}"' for column in table.columns)
    order = ", ".join(f'"{name}"' for name in table.key)
    found = await views.fetch(f"SELECT {columns} FROM {table.name} ORDER BY {order}")  # noqa: S608
    return found.rows


async def contents(views: Views) -> Mapping[str, list[tuple[Any, ...]]]:
    """Return the rows of all tables of `Counting`."""
    return {table.name: await rows(views, table) for table in (STREAMS, NOTES, TOTALS)}


async def digest(views: Views, projection: Projection[Any] | None = None) -> Mapping[str, str]:
    """Return the digests of all tables of a projection: of `Counting`, unless another is given.

    They are the same in both databases.
    """
    generation, of = await views.present(), projection or Counting()

    def of_rows(statements: Statements) -> Mapping[str, str]:
        return {
            each.name: sha256(repr([*generation.rows(statements, each)]).encode()).hexdigest() for each in of.tables
        }

    return await asyncio.to_thread(generation.database.read, of_rows)


@tool(effect=ToolEffect.READ)
def search(query: str) -> str:
    """Search for something."""
    return query


def desk(*replies: str) -> Agent:
    """Return an agent that searches once and then says these replies; without one its model fails."""
    script = [call("search", query="tea"), *map(say, replies)]
    return AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(search).build()
