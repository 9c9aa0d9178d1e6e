"""The faults that are known of the SQLite that Python was linked with."""

import sqlite3

_FIXED = ((3, 51, 3), (3, 50, 7), (3, 44, 6))
"""The first version without the fault, and those of older lines that it was fixed in, too."""


def known_fault(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str | None:
    """Return the fault of a version of SQLite for a store that several connections write; None when it has none.

    In all versions with a write-ahead log up to 3.51.2, one connection that starts the log anew while a second one
    copies it into the file may make the second one skip commits, and so damage the file. It takes bad luck.
    """
    if version >= _FIXED[0] or any(first <= version < (*first[:2], 999) for first in _FIXED[1:]):
        return None
    return (
        f"SQLite {'.'.join(map(str, version))} may, very rarely, damage a file that several processes write at once "
        "(its WAL-reset bug): use Python with SQLite 3.51.3 or newer, or 3.50.7 or 3.44.6 of the older lines"
    )
