"""The generations of one set of read models, and which of them readers look at."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from steptrail.infrastructure.views.database import Database
from steptrail.infrastructure.views.generation import Generation
from steptrail.projections.kernel.face import Face


class Series(Protocol):
    """Makes generations and points at one of them; blocking. Raises `StoreError`.

    Readers look at the one that is pointed at. A generation that nobody points at may be removed.
    """

    @property
    def is_beside(self) -> bool:
        """Whether they are kept beside the store, which may be one that is only read, and not in it."""
        ...

    @property
    def place(self) -> str:
        """Where they are: a folder, or a schema of the store's database."""
        ...

    def current(self) -> int | None:
        """Return the number of the generation that readers look at; None when there is none yet."""
        ...

    def open(self, number: int) -> Generation:
        """Return a generation. One that was opened before is the same object."""
        ...

    def begin(self) -> Generation:
        """Make a new generation, without tables, that nobody points at."""
        ...

    def face(self, number: int, name: str) -> int:
        """Return the version of the public views of a name that readers of a generation see, 0 for none."""
        ...

    def public(self, number: int) -> Database:
        """Return where the public views of a generation are read."""
        ...

    def publish(self, number: int, faces: Sequence[Face]) -> None:
        """Give readers of a generation these public views, beside those that it has, unless they look at another one.

        Raises `ConfigurationError` for a view that another face has.
        """
        ...

    def point_at(self, number: int, faces: Sequence[Face], *, is_first: bool = False) -> bool:
        """Have readers look at a generation from now on, with these public views, as `publish` gives them.

        One that is to be the first takes the place of no other one. Returns whether they look at it now.
        """
        ...

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove these generations. One that cannot be removed now is left to the next time."""
        ...

    def sizes(self) -> Mapping[int, int]:
        """Return the number of bytes of each generation."""
        ...

    def close(self) -> None:
        """Close every connection. Safe to call twice."""
        ...
