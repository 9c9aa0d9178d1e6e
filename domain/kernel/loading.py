"""Says that code of the library could not be read when it was first needed, such as without a free file descriptor."""

from collections.abc import Generator
from contextlib import contextmanager

from steptrail.domain.errors import StoreUnavailable


@contextmanager
def loading(what: str) -> Generator[None]:
    """Import in this block. Raises `StoreUnavailable`, with the reason, where a file of the code cannot be read now."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise StoreUnavailable(f"the code of {what} cannot be read: {why}: nothing was done, try again") from error
