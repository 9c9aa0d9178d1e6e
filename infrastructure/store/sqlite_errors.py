"""What SQLite reports, in the words of the port, and patience with a lock that somebody else holds."""

import random
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

from steptrail.domain.errors import (
    NotAStore,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)

__all__ = ["primary_code", "translate", "translated", "until_free"]

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_FIRST_WAIT, _LONGEST_WAIT = 0.001, 0.04

T = TypeVar("T")


def primary_code(error: sqlite3.Error) -> int:
    """Return the SQLite result code without its extension; 0 for an error that Python itself raised."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def translate(error: sqlite3.Error, store: str) -> StoreError:
    """Return the error of the port that tells the user of `store` the same."""
    code = primary_code(error)
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY_DBMOVED:
        return StoreUnavailable(f"the store {store} was moved or deleted while it was open")
    if code in _LOCKED:
        return StoreLocked(f"the store {store} is locked by another process: nothing was written, try again")
    if code == sqlite3.SQLITE_READONLY:
        return StoreReadOnly(f"the store {store} cannot be written: check the rights of the file and its folder")
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(f"no space left for the store {store}: nothing was written, free some and try again")
    if code == sqlite3.SQLITE_NOTADB:
        return NotAStore(f"{store} is not a SQLite database; it was left as it is")
    if code == sqlite3.SQLITE_CORRUPT:
        return StoreDamaged(f"the file of the store {store} is damaged ({error}): restore it from a backup")
    return StoreUnavailable(f"the store {store} cannot be used: {error}")


def translated(work: Callable[[], T], store: str) -> T:
    """Return `work()`. Raises the error of the port instead of what SQLite reports."""
    try:
        return work()
    except sqlite3.Error as error:
        raise translate(error, store) from error


def until_free(work: Callable[[], T], patience: float) -> T:
    """Return `work()`, called again while another connection holds a lock it needs, for `patience` seconds at most.

    SQLite's own waiting is unfair between processes, so the pauses here are short and jittered. `work` must leave
    nothing behind when it fails. Raises what `work` raises.
    """
    deadline: float | None = None
    pause = _FIRST_WAIT
    while True:
        try:
            return work()
        except UnicodeDecodeError as error:
            # What is damaged in the file stands in SQLite's message, which Python then cannot read.
            msg = "its structure is damaged"
            raise sqlite3.DatabaseError(msg) from error
        except sqlite3.OperationalError as error:
            if primary_code(error) not in _LOCKED:
                raise
            now = time.monotonic()
            deadline = now + patience if deadline is None else deadline
            if now >= deadline:
                raise
            time.sleep(min(pause * random.uniform(0.5, 1.0), deadline - now))  # noqa: S311 - spreads waiters
            pause = min(pause * 1.6, _LONGEST_WAIT)
