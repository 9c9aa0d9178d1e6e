"""The generation that readers look at: finding it, and making the first one; blocking.

A rebuild removes all generations but its own and the one that readers look at as it begins. So a generation that was
found a moment ago, or that is being made, may be gone: then there is another one, or is none yet.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from steptrail.domain.errors import StoreError, StoreUnavailable
from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.generation import Generation, PlaceMoved
from steptrail.infrastructure.views.series import Series
from steptrail.projections.kernel.face import Face
from steptrail.projections.kernel.projection import Projection

T = TypeVar("T")
_TRIES = 5
"""How many times in a row to begin again where a generation is removed while it is looked at."""


class Present:
    """Finds the generation of a series that readers look at, with the tables of some projections."""

    def __init__(self, series: Series, projections: Sequence[Projection[Any]], faces: Sequence[Face]) -> None:
        self._series, self._projections, self.faces = series, projections, faces
        self.names = {(each.name, each.version) for each in projections}

    def generation(self) -> Generation:
        """Return the generation that readers look at, with the tables of all projections. Makes the first one."""
        for tries_left in reversed(range(_TRIES)):
            if (found := self.of(self._completed)) is not None:
                return found
            made = self._series.begin()
            try:
                self._prepare(made, {})
                # Before anything is counted, so that those who ask in SQL find the views.
                if self._series.point_at(made.number, self.faces, is_first=True):
                    return made
            except StoreError:
                if not tries_left or made.number in self._series.sizes():
                    raise
            finally:
                # Somebody else was first, has removed it, or it cannot be made.
                self.give_up(made)
        raise StoreUnavailable("the read models were removed again and again while they were made: try again")

    def of(self, work: Callable[[Generation], T]) -> T | None:
        """Return `work` of the generation that readers look at; None while there is none.

        It is done again when the generation is removed meanwhile.
        """
        for tries_left in reversed(range(_TRIES)):
            if (number := self._series.current()) is None:
                break
            try:
                return work(self._series.open(number))
            except StoreError:
                if not tries_left or self._series.current() == number:
                    raise
        return None

    def begun(self, pruned: Mapping[str, int], present: int | None) -> Generation:
        """Make a generation that nobody looks at, with the tables of all projections; see `Generation.prepare`.

        All others are removed, but the one that is `present`. Raises `PlaceMoved` where somebody else removes this one,
        or has had readers look at another one than the `present`.
        """
        made = self._series.begin()
        try:
            if self._series.current() != present:
                raise PlaceMoved  # it would be among those that are removed, with the word of what was pruned
            # Those that are left by others may have the room that it needs. Not before: it would get one of their
            # numbers, and who is still at that one would lead readers to this one.
            self._series.remove(self._series.sizes().keys() - {made.number, present})
            self._prepare(made, pruned)
        except BaseException as error:
            self.give_up(made, error)
            raise
        return made

    def give_up(self, made: Generation, error: BaseException | None = None) -> None:
        """Remove a generation that will not be completed, unless readers look at it, so that it takes no room.

        Raises `PlaceMoved` for an `error` that came of it being gone. Another rebuild removes it where the process that
        makes it stands still for longer than its lease lasts.
        """
        with suppress(StoreError):
            if isinstance(error, StoreError) and made.number not in self._series.sizes():
                raise PlaceMoved from error
            if self._series.current() != made.number:
                self._series.remove([made.number])

    def _completed(self, generation: Generation) -> Generation:
        if not self.names <= {each[:2] for each in generation.database.read(generation.progress)}:
            self._prepare(generation, {})
        return generation

    def _prepare(self, generation: Generation, pruned: Mapping[str, int]) -> None:
        try:
            generation.database.write(lambda statements: generation.prepare(statements, self._projections, pruned))
        except Unfit as error:
            names = ", ".join(each.name for each in self._projections)
            raise Unfit(f"the tables of the projections {names} cannot be made: {error}") from error
