"""The records of a stream, and of the log, come in pages, and all of them come.

That is so whatever the size of their commits, and however far the next one is.
"""

import re
import sqlite3
from contextlib import closing
from itertools import product
from pathlib import Path

import pytest

from steptrail.domain.agent.events import AgentEvent, MetadataChanged, SessionStarted
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, StreamHead
from steptrail.infrastructure.store.core import event_store
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.history import pages
from steptrail.testing.store_contract import Noted, Written, commit_of
from tests.integration.store.kit import note_statements, url

STREAM = "agent:s"
SIZES = (1, 5, 1, 7, 2)


@pytest.mark.parametrize("at", [None, 1, 4, 9, 16])
@pytest.mark.parametrize("most", [1, 2, 3, 6, 100])
@pytest.mark.parametrize("after", [0, EMPTY_STREAM], ids=["after a version", "after a head"])
async def test_all_records_come_once_up_to_the_version_that_is_asked_for(
    after: int | StreamHead, most: int, at: int | None
) -> None:
    store, head = open_store("sqlite:///:memory:"), EMPTY_STREAM
    for number, size in enumerate(SIZES):
        events: tuple[AgentEvent, ...] = (
            (SessionStarted(name="s"),) if number == 0 else (MetadataChanged(by="me", changes={}),) * size
        )
        commit = Commit(CommitHead(commit_id=f"c{number}", actor="me"), tuple((number, event) for event in events))
        head = await store.append(STREAM, head, commit)
    found = [
        record.version
        async for records, _ in pages(AGENT, store, STREAM, after=after, at=at, most=most)
        for record in records
    ]
    assert found == list(range(1, (at or sum(SIZES)) + 1))
    await store.close()


async def test_one_question_for_few_types_looks_through_a_part_of_the_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, statements = tmp_path / "runs.db", list[str]()
    store = open_store(url(file))
    await store.append("agent:first", EMPTY_STREAM, commit_of("c", Noted()))
    await store.append("agent:last", EMPTY_STREAM, commit_of("c", Noted(), Written(), Written()))
    await store.close()
    with closing(sqlite3.connect(file)) as connection, connection:
        for table in ("events", "commits"):
            connection.execute(f"UPDATE {table} SET position = position + 450000 WHERE position > 1")  # noqa: S608
    note_statements(monkeypatch, statements.append)
    store = open_store(url(file))
    found = [entry.position async for entry in store.log(types=[Written.TYPE])]
    page = await store.log_page(1, 1, types=[Written.TYPE])
    nothing = await store.log_page(450_004, 1, types=[Written.TYPE])
    await store.close()
    assert found == [450_003, 450_004]
    assert (page.size, page.reached, page.is_end) == (1, 450_003, False)
    assert (nothing.size, nothing.reached, nothing.is_end) == (0, 450_004, True)
    told = " ".join(statements)
    looked = [tuple(map(int, each)) for each in re.findall(r"e\.position > (\d+) AND e\.position <= (\d+)", told)]
    assert list(dict.fromkeys(looked))[:5] == [
        *((after, after + 100_000) for after in range(0, 400_000, 100_000)),
        (400_000, 2**63 - 1),
    ]


async def test_what_is_read_of_a_few_types_in_parts_of_the_log_is_all_that_there_is(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_store, "_LOOKED_THROUGH", 3)
    writer, store = open_store(store_url), open_store(store_url, read_only=True)
    for number, stored in enumerate(("nnwn", "n", "nnnnnnw", "wwwww", "n", "nnnnnnn")):
        commit = commit_of("c", *(Written() if letter == "w" else Noted() for letter in stored))
        await writer.append(f"agent:{number}", EMPTY_STREAM, commit)
        kinds: tuple[type[Noted] | type[Written], ...] = (Noted, Written)
        for kind, limit in product(kinds, (1, 500)):
            wanted = [entry.position async for entry in store.log() if isinstance(entry.record.event, kind)]
            for after in (0, 9):
                found, place, is_end = list[int | None](), after, False
                while not is_end:
                    page = await store.log_page(place, limit, types=[kind.TYPE])
                    found += [item.position for item in page.items]
                    place, is_end = page.reached, page.is_end
                assert found == [position for position in wanted if position > after]
    await store.close()
    await writer.close()
