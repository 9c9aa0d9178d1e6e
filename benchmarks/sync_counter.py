"""Counts how often SQLite asks for its data to reach the disk, from inside the process.

SQLite reaches files through a table of functions. While the counter is on, the function that opens a file hands out
copies of that table in which the one for syncing counts first. Nothing is slowed but by the counting, so it also tells
how many commits of concurrent sessions shared a sync; a tracer would make them share more.
"""

import _sqlite3
import ctypes
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class SyncCount:
    """How many syncs there were so far."""

    count: int = 0


_POINTER = ctypes.c_void_p
_Open = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, _POINTER, _POINTER, ctypes.c_int, _POINTER)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, _POINTER, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """The head of `sqlite3_vfs`, as far as `xOpen`."""

    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", _POINTER),
        ("zName", ctypes.c_char_p),
        ("pAppData", _POINTER),
        ("xOpen", _POINTER),
    )


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 3: xSync is the fifth of 18 functions."""

    _fields_ = (("iVersion", ctypes.c_int), ("functions", _POINTER * 18))


_X_SYNC = 4


@contextmanager
def counted_syncs() -> Generator[SyncCount, None, None]:
    """Count the syncs of every file that is opened in the block, until it is left.

    Files that were opened in the block must be closed in it. Raises `OSError` when the SQLite of this Python keeps its
    functions to itself.
    """
    vfs = _default_vfs()
    counter = SyncCount()
    tables: dict[int, _Methods] = {}
    kept: list[Any] = []  # ctypes frees a callback that nobody refers to
    real_open = _Open(vfs.xOpen or 0)

    def counting(real: Callable[[int | None, int], int]) -> Any:
        def sync(file: int | None, flags: int) -> int:
            counter.count += 1
            return real(file, flags)

        return _Sync(sync)

    def opening(this: int | None, name: int | None, file: int | None, flags: int, out: int | None) -> int:
        status: int = real_open(this, name, file, flags, out)
        at = _POINTER.from_address(file or 0)
        if status == 0 and at.value:
            if at.value not in tables:
                table = _Methods.from_buffer_copy(_Methods.from_address(at.value))
                replaced = counting(_Sync(table.functions[_X_SYNC]))
                table.functions[_X_SYNC] = ctypes.cast(replaced, _POINTER)
                kept.append(replaced)
                tables[at.value] = table
            at.value = ctypes.addressof(tables[at.value])
        return status

    replacement = _Open(opening)
    before = vfs.xOpen
    vfs.xOpen = ctypes.cast(replacement, _POINTER)
    try:
        yield counter
    finally:
        vfs.xOpen = before


def _default_vfs() -> _Vfs:
    try:
        find = ctypes.CDLL(_sqlite3.__file__).sqlite3_vfs_find
    except AttributeError as error:
        msg = "the SQLite of this Python keeps its functions to itself: syncs cannot be counted"
        raise OSError(msg) from error
    find.restype = ctypes.POINTER(_Vfs)
    find.argtypes = (ctypes.c_char_p,)
    found: _Vfs = find(None).contents
    return found
