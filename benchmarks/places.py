"""Where it is measured: a site makes places, a place holds one store and the floor that it is compared with."""

from typing import Protocol

from benchmarks.meter import Cost
from benchmarks.rows import Rows


class Place(Protocol):
    """One store, made when it is first opened, and its address."""

    url: str

    def size(self) -> int:
        """Return how many bytes the store takes on the disk; nothing may have it open."""
        ...

    def rows(self) -> Rows:
        """Return all that the store holds."""
        ...

    def write_floor(self, rows: Rows) -> Cost:
        """Write the rows again in the plainest way with the same durability and the same order."""
        ...

    def read_floor(self, stream: str | None = None) -> Cost:
        """Read the rows of a stream, or of all, again and parse each as JSON."""
        ...

    def remove(self) -> None:
        """Remove the store."""
        ...


class Site(Protocol):
    """A kind of store."""

    name: str

    def fresh(self) -> Place:
        """Return a place with no store in it."""
        ...

    def settings(self) -> dict[str, str]:
        """Return what of the store's settings explains its figures."""
        ...
