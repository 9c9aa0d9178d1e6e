"""Waiting for a lock ends, and only a lock is waited for."""

import sqlite3

import pytest

from steptrail.domain.errors import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from steptrail.infrastructure.store.sqlite.errors import translate, until_free


def failure(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("because")
    error.sqlite_errorcode = code
    return error


def failing(times: int, code: int) -> "list[sqlite3.OperationalError]":
    return [failure(code) for _ in range(times)]


@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_BUSY_RECOVERY])
def test_a_lock_is_waited_for(code: int) -> None:
    failures = failing(3, code)

    def work() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert until_free(work, 60) == "done"


def test_patience_ends() -> None:
    failures = failing(2, sqlite3.SQLITE_BUSY)

    def work() -> None:
        raise failures.pop()

    with pytest.raises(sqlite3.OperationalError):
        until_free(work, 0)
    assert len(failures) == 1


def test_nothing_else_is_tried_twice() -> None:
    failures = failing(2, sqlite3.SQLITE_FULL)

    def work() -> None:
        raise failures.pop()

    with pytest.raises(sqlite3.OperationalError):
        until_free(work, 60)
    assert len(failures) == 1


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreLocked),
        (sqlite3.SQLITE_LOCKED_SHAREDCACHE, StoreLocked),
        (sqlite3.SQLITE_READONLY_DIRECTORY, StoreReadOnly),
        (sqlite3.SQLITE_READONLY_DBMOVED, StoreUnavailable),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_NOTADB, NotAStore),
        (sqlite3.SQLITE_CORRUPT, StoreDamaged),
        (sqlite3.SQLITE_CANTOPEN, StoreUnavailable),
        (sqlite3.SQLITE_IOERR_READ, StoreUnavailable),
    ],
)
def test_every_failure_has_its_type_and_names_the_store(code: int, kind: type[StoreError]) -> None:
    error = translate(failure(code), "/data/runs.db")
    assert type(error) is kind
    assert "/data/runs.db" in str(error)
