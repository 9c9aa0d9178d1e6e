"""The refusals of the operating system for files, in the words of the port, for all that is kept in files."""

import errno
import os
from tempfile import TemporaryDirectory

from steptrail.domain.errors import StoreAway, StoreError, StoreFull, StoreUnavailable

_FULL = {errno.ENOSPC, errno.EDQUOT}
_TOO_MANY = {errno.EMFILE, errno.ENFILE}


def may_pass(error: OSError) -> bool:
    """Tell whether the same may succeed later: there was no room for it now."""
    return error.errno in {*_FULL, *_TOO_MANY, errno.EFBIG}


def file_error(error: OSError, what: str) -> StoreError:
    """Return the error of the port that tells the user of `what`, such as `the leases in FOLDER`, the same."""
    if error.errno in _FULL:
        return StoreFull(f"no space left for {what}: nothing was written, free some and try again")
    if error.errno == errno.EFBIG:
        return too_large(what, largest_file())
    if error.errno in _TOO_MANY:
        return too_many(what)
    # Without the name of the file: each lease has another, and what is told again and again is to be the same.
    return StoreUnavailable(f"{what} cannot be used: {error.strerror or error}")


def too_large(what: str, most: int | None) -> StoreFull:
    """Return the error for a file that may not grow any more."""
    limit = "no file may be so large" if most is None else f"a file may have {most:,} bytes at most (`ulimit -f`)"
    return StoreFull(f"{what} cannot be written: {limit}: nothing was written, have that raised and try again")


def too_many(what: str) -> StoreAway:
    """Return the error for a file that cannot be opened beside all that are open."""
    why = "this process, or the system, has as many files open as it may (`ulimit -n`)"
    return StoreAway(f"{what} cannot be used: {why}: close some, or have that raised, and try again")


def largest_file() -> int | None:
    """Return how large a file this process may make, in bytes; None for no limit."""
    try:
        import resource
    except ImportError:  # on Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if most == resource.RLIM_INFINITY else most


def is_out_of_files() -> bool:
    """Tell whether this process cannot open three more files.

    A database needs so many, a file with two beside it, and SQLite does not say. So does the loop of a thread.
    """
    opened: list[int] = []
    try:
        for _ in range(3):
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in _TOO_MANY
    finally:
        for each in opened:
            os.close(each)
    return False


def temporary_folder(prefix: str) -> "TemporaryDirectory[str]":
    """Make a folder for temporary files. Raises `StoreUnavailable` where there can be none."""
    try:
        return TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except OSError as error:
        what = "the folder for temporary files"
        # Python only says that no folder will do, after it has tried to make a file in each.
        raise too_many(what) if is_out_of_files() else file_error(error, what) from error
