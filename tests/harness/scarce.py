"""Takes from this process room for files, descriptors or threads, as long as a block of a test goes on."""

import itertools
import os
import resource
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest


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


@contextmanager
def thread_refused(number: int) -> Generator[list[str]]:
    """Let the thread that begins as number `number`, from 0, not begin. Yields the name of that one, once it was it."""
    really, begun, refused = threading.Thread.start, itertools.count(), list[str]()

    def start(thread: threading.Thread) -> None:
        if next(begun) == number:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        really(thread)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        yield refused
