"""How much a worker carries on at once: altogether, of one agent, and for one tenant."""

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from steptrail.domain.kernel.given import a_text, a_whole
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.shared.tags import kept_apart

Most: TypeAlias = int | Mapping[str, int] | None
"""At most so many at once of each name, or of the names in it; `*` in it stands for every other. None for no limit."""

Place: TypeAlias = tuple[str, str]
"""A thing that a run counts for: (`agent`, its name) and (`tenant`, its tenant)."""


class Room:
    """The places of one worker, and which of them are taken.

    Raises `ConfigurationError` for a limit that would let nothing run.
    """

    def __init__(self, concurrency: int, *, per_agent: Most = None, per_tenant: Most = None) -> None:
        self.concurrency = a_whole(concurrency, "the concurrency of a worker", least=1)
        of_tenants = _most("per_tenant", per_tenant)
        tenants = {kept_apart(a_text(name, "a tenant in `per_tenant`")): most for name, most in of_tenants.items()}
        self._most = {"agent": _most("per_agent", per_agent), "tenant": tenants}
        self._taken: Counter[Place] = Counter()
        self._places: dict[str, tuple[Place, ...]] = {}

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more can begin, of whatever agent and tenant."""
        return len(self._places) >= self.concurrency

    def places_of(self, row: RunSummary) -> tuple[Place, ...]:
        """Return the places that a run would take, of those that are limited."""
        named = ("agent", row.name), ("tenant", row.tenant)
        return tuple((of, name) for of, name in named if name is not None and self._limit((of, name)) is not None)

    def full(self, places: tuple[Place, ...]) -> Place | None:
        """Return the first place of these that is taken altogether; None when a run with them can begin."""
        return next((place for place in places if self._taken[place] >= (self._limit(place) or 0)), None)

    def enter(self, stream: str, places: tuple[Place, ...]) -> None:
        """Take the places for a stream."""
        self._places[stream] = places
        self._taken.update(places)

    def leave(self, stream: str) -> tuple[Place, ...]:
        """Free the places of a stream, and return them."""
        places = self._places.pop(stream)
        self._taken.subtract(places)
        self._taken += Counter()
        return places

    def _limit(self, place: Place) -> int | None:
        most = self._most[place[0]]
        return most.get(place[1], most.get("*"))


def _most(setting: str, given: Most) -> Mapping[str, int]:
    if given is None:
        return {}
    limits = given if isinstance(given, Mapping) else {"*": given}
    return {
        name: a_whole(limit, setting if name == "*" else f"{setting} of {name!r}", least=1)
        for name, limit in limits.items()
    }
