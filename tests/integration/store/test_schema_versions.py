"""A store of another format is refused, or read only where its header allows it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from steptrail.domain.errors import StoreTooNew, StoreTooOld
from steptrail.infrastructure.store.core.tables import FORMAT
from steptrail.infrastructure.store.opening import open_store
from tests.integration.store.kit import contents, texts, url, use

BEFORE_THE_FIRST_RELEASE = """
CREATE TABLE stored_events (
  position INTEGER PRIMARY KEY AUTOINCREMENT, originator_id TEXT NOT NULL, originator_version INTEGER NOT NULL,
  topic TEXT NOT NULL, state BLOB NOT NULL,
  commit_id TEXT, actor TEXT, causation TEXT, segment INTEGER, key_id TEXT, previous_digest BLOB, digest BLOB,
  UNIQUE (originator_id, originator_version));
PRAGMA application_id = 0x53747054;
PRAGMA journal_mode = WAL;
"""


def mark(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("found", range(1, FORMAT))
def test_a_file_of_an_older_format_is_refused_says_what_to_do_and_stays_as_it_is(
    tmp_path: Path, found: int, read_only: bool
) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(BEFORE_THE_FIRST_RELEASE + f"PRAGMA user_version = {found};")
    before = contents(tmp_path)
    with pytest.raises(StoreTooOld, match=f"has format {found} .* keep it with the version that wrote it") as caught:
        open_store(url(path), read_only=read_only)
    assert (caught.value.found, caught.value.oldest) == (found, FORMAT)
    assert contents(tmp_path) == before


async def test_a_newer_file_whose_header_allows_it_is_read_and_never_written(made: Path) -> None:
    mark(
        made,
        f"PRAGMA user_version = {FORMAT + 1}",
        f"UPDATE store SET format = {FORMAT + 1}",  # noqa: S608
        "ALTER TABLE commits ADD COLUMN later",
    )
    assert await use(open_store(url(made), read_only=True), texts) == ["kept"]
    with pytest.raises(
        StoreTooNew, match=f"has format {FORMAT + 1}, this Steptrail knows formats up to {FORMAT}: update"
    ):
        open_store(url(made))


@pytest.mark.parametrize("oldest", [FORMAT + 1, "'text'"])
def test_a_newer_file_whose_header_forbids_it_is_not_read(made: Path, oldest: object) -> None:
    mark(made, f"PRAGMA user_version = {FORMAT + 1}", f"UPDATE store SET min_reader = {oldest}")  # noqa: S608
    with pytest.raises(StoreTooNew):
        open_store(url(made), read_only=True)


async def test_a_header_is_written_once(made: Path) -> None:
    mark(made, "UPDATE store SET min_reader = 3")
    await use(open_store(url(made)), texts)
    with closing(sqlite3.connect(made)) as connection:
        assert connection.execute("SELECT * FROM store").fetchall() == [(FORMAT, 3)]
