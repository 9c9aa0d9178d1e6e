"""The errors of PostgreSQL, in the words of the port.

The server's codes tell what happened. A connection that never came to be has no code, and only the English text is
there to tell a wrong password from a server that is down. An error that is not recognised keeps its text as it came.
"""

from steptrail.domain.errors import (
    NotAStore,
    StoreAway,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
    StoreUnavailable,
)
from steptrail.infrastructure.store.core import file_errors
from steptrail.infrastructure.store.postgres.driver import GAVE_WAY, ONLY_READS, ServerFailure

_GONE = {"3F000", "42P01", "42703", "42883"}
"""A schema, table, column or function that is not there."""

_SCARCE = {"53000", "53200", "53300"}
"""Resources, such as memory, and connections, that a server lacks for now."""

_REFUSED = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    'FATAL: role "',
    "permission denied for database",
)
"""A role that is not there, or may not log in, is said to be so; a certificate that is not there is a file of ours."""

_MISSET = (
    "invalid sslmode",
    "invalid target_session_attrs",
    "invalid port number",
    "invalid integer value",
    "bad value for ",
    'configuration parameter "',
    'invalid value for parameter "',
    "unsupported startup parameter",
)
"""The words of the driver about a setting before it asks anybody, and of a server or a pooler that does not take it."""


def translate(failure: ServerFailure, store: str, *, is_writing: bool = False) -> StoreError:
    """Return the error of the port that tells the user of `store` the same. No row was written when it `is_writing`.

    Not for a write whose connection was lost: its outcome is unknown.
    """
    state, text = failure.state or "", " ".join(failure.text.split())
    undone = ": nothing was written" if is_writing else ""
    if failure.is_late:
        return StoreAway(f"the server of the store {store} does not answer: check it and the network")
    if failure.is_lost:
        return StoreAway(f"the connection to the store {store} was lost, try again: {text}")
    if state == "55P03":
        return StoreLocked(f"the store {store} is locked by another process: nothing was written, try again")
    if state == "57014":
        return StoreAway(f"the store {store} took too long to answer{undone}, try again: {text}")
    if state in GAVE_WAY:
        return StoreAway(f"the server undid this in favour of others on the store {store}{undone}, try again: {text}")
    if state == ONLY_READS:
        return StoreReadOnly(f"the store {store} cannot be written: its server, or this connection, only reads")
    if state == "42501":
        kind = StoreReadOnly if is_writing else StoreUnavailable
        verb = "written" if is_writing else "read"
        return kind(f"the store {store} cannot be {verb} by this user: grant it the right ({text})")
    if state == "53100":
        return StoreFull(f"no space left for the store {store}: nothing was written, free some and try again")
    if state in _SCARCE:
        return StoreAway(f"the server of the store {store} lacks what it needs{undone}, try again: {text}")
    if state in _GONE:
        return NotAStore(f"{store} does not hold the tables of a store of this version ({text}): check the database")
    if state.startswith("XX"):
        return StoreDamaged(f"the store {store} is damaged ({text}): restore it from a backup")
    return StoreUnavailable(f"the store {store} cannot be used{undone}: {text}")


def unreachable(failure: ServerFailure, store: str) -> StoreUnavailable:
    """Return the error for a connection that could not be made."""
    text = " ".join(failure.text.split())
    if 'database "' in text and '" does not exist' in text:
        return StoreUnavailable(f"there is no database for the store {store}: create it first, or check its name")
    if any(sign in text for sign in _REFUSED):
        return StoreUnavailable(f"the server refuses the user or the password for the store {store} ({_cause(text)})")
    if any(sign in text for sign in _MISSET):
        return StoreUnavailable(f"a setting in the address of the store {store} is wrong: {_cause(text)}")
    if "FATAL: " in text:
        return StoreAway(f"the server of the store {store} takes no connection now, try again: {_cause(text)}")
    if file_errors.is_out_of_files():  # the driver says nothing of that
        return file_errors.too_many(f"the store {store}")
    return StoreAway(f"the server of the store {store} cannot be reached: check that it runs ({_cause(text)})")


def _cause(text: str) -> str:
    _, fatal, said = text.rpartition("FATAL: ")
    return (said if fatal else text.removeprefix("connection failed: ").removeprefix("connection is bad: ")).strip()
