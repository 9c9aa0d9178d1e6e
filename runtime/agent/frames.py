"""Finds the place in the user's code where an exception came from: a few frames, without source and without values.

The user's code is neither Steptrail's nor Python's nor that of an installed package, unless that package was
called itself: a service that is installed has all of its code in a package.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from types import CodeType, FrameType, TracebackType
from typing import Final

from steptrail.domain.exception_words import unicode_text

MAX_FRAMES: Final = 5
"""How many frames of a chain of exceptions are kept."""

_OF_EACH: Final = 3
"""How many frames of one exception are kept, so that some are left for its causes."""

_LONGEST: Final = 200
_INSTALLED: Final = ("site-packages", "dist-packages")


def frames_of(chain: Sequence[BaseException], *, installed: bool = False) -> tuple[str, ...]:
    """Return at most `MAX_FRAMES` frames of the user's code, each `file:line in name`.

    The innermost frame of the first exception comes first, then its callers, then the same of its causes. With
    `installed`, the package that was called first counts as the user's code if there is no other.
    """
    frames = [list(_foreign(each.__traceback__)) for each in chain]
    users = [[frame for frame in of_one if not _is_in_packages(frame[0].f_code.co_filename)] for of_one in frames]
    if installed and not any(users) and (called := next((of_one[0] for of_one in frames if of_one), None)):
        package = _package(called[0])
        users = [[frame for frame in of_one if _package(frame[0]) == package] for of_one in frames]
    found: dict[str, None] = {}
    for of_one in users:
        found.update(dict.fromkeys(_text(frame.f_code, line) for frame, line in of_one[: -_OF_EACH - 1 : -1]))
    return tuple(found)[:MAX_FRAMES]


def _foreign(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames that are neither Steptrail's nor Python's, the outermost first."""
    while traceback is not None:
        frame = traceback.tb_frame
        if _package(frame) != "steptrail" and not _is_pythons(frame.f_code.co_filename):
            yield frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _package(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def _is_pythons(file: str) -> bool:
    return file.startswith("<frozen ") or (file.startswith(_pythons()) and not _is_in_packages(file))


@cache
def _pythons() -> tuple[str, ...]:
    """Return the folders of Python's own library."""
    import sysconfig  # reads a large file, and only who has met an exception needs it

    return tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))


def _is_in_packages(file: str) -> bool:
    from pathlib import PurePath  # and urllib and ipaddress with it, which only who has met an exception needs

    return any(name in PurePath(file).parts for name in _INSTALLED)


def _text(code: CodeType, line: int) -> str:
    name = code.co_qualname.rpartition("<locals>.")[2]
    return unicode_text(f"{_short(code.co_filename)}:{line} in {name}"[:_LONGEST])


def _short(file: str) -> str:
    """Return the path of a file without the folders that differ from computer to computer."""
    from pathlib import PurePath

    path = PurePath(file)
    if (parts := [at for at, part in enumerate(path.parts) if part in _INSTALLED]) and path.parts[parts[-1] + 1 :]:
        return PurePath(*path.parts[parts[-1] + 1 :]).as_posix()
    for folder in _folders():
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return PurePath(*path.parts[-2:]).as_posix() if path.is_absolute() else path.as_posix()


def _folders() -> Iterator[str]:
    with suppress(OSError):  # the working directory may have been deleted
        yield os.getcwd()
    # The innermost folder on `sys.path` gives a module the path that imports of it have.
    yield from sorted((folder for folder in sys.path if folder), key=len, reverse=True)
