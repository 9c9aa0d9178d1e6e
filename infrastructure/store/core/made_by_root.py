"""Folders and files beside a store, for the owner of the store to use.

An administrator may do something as root with the store of a service. SQLite gives its log to the owner of the database
then. What else root made beside it would be root's, and the service could neither lock nor change it.
"""

import os
from contextlib import suppress
from pathlib import Path


def make_folder(folder: Path, like: Path) -> None:
    """Make a folder with the owner of `like`, unless it is there. Its parent has to be there."""
    with suppress(FileExistsError):
        folder.mkdir()
        if _is_root():
            _give_away(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW), like)


def make_file(file: Path, like: Path) -> None:
    """Make an empty file with the owner of `like`. Raises `FileExistsError`."""
    made = os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
    if _is_root():
        _give_away(made, like)
    else:
        os.close(made)


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _give_away(made: int, like: Path) -> None:
    # By the descriptor: under its name there may be another one by now. Not every root may: then it stays root's.
    try:
        with suppress(OSError):
            owner = os.stat(like)
            os.fchown(made, owner.st_uid, owner.st_gid)
    finally:
        os.close(made)
