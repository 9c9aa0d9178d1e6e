"""A store in memory is a copy of an empty one."""

import sqlite3
from contextlib import closing

from steptrail.infrastructure.store.core.tables import FORMAT
from steptrail.infrastructure.store.sqlite.schema import check_header, initialise, initialise_in_memory

OBJECTS = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"


def test_a_store_in_memory_is_what_its_statements_make_and_overwrites_what_it_deletes() -> None:
    with closing(sqlite3.connect(":memory:")) as stated, closing(sqlite3.connect(":memory:")) as copied:
        copied.execute("PRAGMA secure_delete = OFF")  # some systems have it on from the beginning
        initialise(stated, ":memory:")
        initialise_in_memory(copied)
        assert check_header(copied, ":memory:") == FORMAT
        for question in (OBJECTS, "SELECT * FROM store", "PRAGMA secure_delete"):
            assert copied.execute(question).fetchall() == stated.execute(question).fetchall() != []


def test_stores_in_memory_share_nothing() -> None:
    with closing(sqlite3.connect(":memory:")) as first, closing(sqlite3.connect(":memory:")) as second:
        initialise_in_memory(first)
        first.execute("INSERT INTO types (name) VALUES ('noted')")
        initialise_in_memory(second)
        assert second.execute("SELECT name FROM types").fetchall() == []
