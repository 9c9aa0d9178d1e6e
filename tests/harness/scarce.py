"""Takes from this process what files need, room and descriptors, as long as a block of a test goes on."""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Let no file grow beyond `size` bytes."""
    yield from _with_limit(resource.RLIMIT_FSIZE, size)


@contextmanager
def files_left(count: int) -> Generator[None]:
    """Let this process open `count` more files at most."""
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    yield from _with_limit(resource.RLIMIT_NOFILE, lowest + count)


def _with_limit(what: int, limit: int) -> Generator[None]:
    before = resource.getrlimit(what)
    resource.setrlimit(what, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)
