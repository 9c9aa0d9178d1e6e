"""The generations of one set of read models, and which of them readers look at."""

from collections.abc import Mapping
from typing import Protocol

from steptrail.infrastructure.views.database import Database
from steptrail.infrastructure.views.generation import Generation
from steptrail.projections.kernel.face import Face

__all__ = ["Series"]


class Series(Protocol):
    """Makes generations and points at one of them; blocking. Raises `StoreError`.

    Readers look at the one that is pointed at. A generation that nobody points at may be removed.
    """

    def current(self) -> int | None:
        """Return the number of the generation that readers look at; None when there is none yet."""
        ...

    def open(self, number: int) -> Generation:
        """Return a generation. One that was opened before is the same object."""
        ...

    def begin(self) -> Generation:
        """Make a new generation, without tables, that nobody points at."""
        ...

    def face(self, number: int) -> int:
        """Return the version of the public views that readers of a generation see, 0 for none."""
        ...

    def public(self, number: int) -> Database:
        """Return where the public views of a generation are read."""
        ...

    def point_at(self, number: int, face: Face) -> None:
        """Have readers look at a generation from now on, with these public views."""
        ...

    def clean(self, keep: set[int]) -> None:
        """Remove all other generations. One that cannot be removed now is left to the next time."""
        ...

    def sizes(self) -> Mapping[int, int]:
        """Return the number of bytes of each generation."""
        ...

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        ...
