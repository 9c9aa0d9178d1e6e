"""What is in the header of a database is read at one moment, whoever makes a store of it meanwhile."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from steptrail.domain.errors import StoreDamaged
from steptrail.infrastructure.store.core.tables import FORMAT
from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.store.sqlite.schema import check_header, initialise


def test_a_store_that_another_process_makes_meanwhile_is_none_of_another_application(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"

    class Slow(sqlite3.Connection):
        """A connection that lets another process go first before each statement but the first."""

        asked = 0

        def execute(self, *statement: Any) -> sqlite3.Cursor:
            self.asked += 1
            if self.asked == 2:
                with closing(sqlite3.connect(path)) as other:
                    initialise(other, str(path))
            return super().execute(*statement)

    with closing(sqlite3.connect(path, factory=Slow)) as connection:
        assert check_header(connection, str(path)) in {0, FORMAT}


@pytest.mark.parametrize("read_only", [False, True])
def test_a_table_whose_name_is_no_text_any_more_is_damage(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as connection:
        initialise(connection, str(path))
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET name = CAST(X'CE62' AS TEXT), sql = 'none' WHERE name = 'blobs'")
        connection.commit()
    with pytest.raises(StoreDamaged, match="restore it from a backup"):
        open_store(f"sqlite:///{path}", read_only=read_only)
