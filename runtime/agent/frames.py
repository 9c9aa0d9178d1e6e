"""Where in the user's code an exception came from: a few lines of its traceback, without source and without values.

The user's code is neither Steptrail's nor Python's nor that of an installed package, unless the package is what was
called: a service that is installed itself has all of its code there.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath
from types import CodeType, FrameType, TracebackType
from typing import Final

__all__ = ["MAX_FRAMES", "frames_of"]

MAX_FRAMES: Final = 5
"""Frames that are kept of a chain of exceptions."""

_OF_EACH: Final = 3
"""Frames that are kept of one exception, so that something is left for what caused it."""

_LONGEST: Final = 200
_INSTALLED: Final = ("site-packages", "dist-packages")
_PYTHONS: Final = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib"))


def frames_of(chain: Sequence[BaseException], *, installed: bool = False) -> tuple[str, ...]:
    """Return at most `MAX_FRAMES` frames of the user's code, each `file:line in name`.

    The innermost frame of the first exception comes first, then who called it, then the same of its causes. With
    `installed` the package that was called first counts as the user's, when there is no other code of his.
    """
    frames = [list(_foreign(each.__traceback__)) for each in chain]
    users = [[frame for frame in of_one if not _is_installed(frame[0].f_code)] for of_one in frames]
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
    return file.startswith("<frozen ") or (file.startswith(_PYTHONS) and not _is_in_packages(file))


def _is_installed(code: CodeType) -> bool:
    return _is_in_packages(code.co_filename)


def _is_in_packages(file: str) -> bool:
    return any(name in PurePath(file).parts for name in _INSTALLED)


def _text(code: CodeType, line: int) -> str:
    name = code.co_qualname.rpartition("<locals>.")[2]
    return f"{_short(code.co_filename)}:{line} in {name}"[:_LONGEST]


def _short(file: str) -> str:
    """Return the file as one would type it, without the folders of the machine."""
    path = PurePath(file)
    if (parts := [at for at, part in enumerate(path.parts) if part in _INSTALLED]) and path.parts[parts[-1] + 1 :]:
        return PurePath(*path.parts[parts[-1] + 1 :]).as_posix()
    for folder in _folders():
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return PurePath(*path.parts[-2:]).as_posix() if path.is_absolute() else path.as_posix()


def _folders() -> Iterator[str]:
    with suppress(OSError):  # it may have been deleted
        yield os.getcwd()
    # The innermost folder that modules are imported from names a module as its imports do.
    yield from sorted((folder for folder in sys.path if folder), key=len, reverse=True)
