"""How much a worker carries on at once: altogether, of one agent, and for one tenant."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from steptrail.domain.kernel.given import a_whole
from steptrail.domain.newest import Newest
from steptrail.domain.shared.summary import RunSummary

Most: TypeAlias = int | Mapping[str, int] | None
"""At most so many at once of each name, or of the names in it; `*` in it stands for every other. None for no limit."""

TenantOf: TypeAlias = Callable[[RunSummary], Awaitable[str | None]]
Place: TypeAlias = tuple[str, str]
"""A thing that a run counts for: (`agent`, its name) and (`tenant`, its tenant)."""

_MOST_TENANTS = 100_000


class Room:
    """The places of one worker, and which of them are taken.

    Raises `ConfigurationError` for a limit that would let nothing run.
    """

    def __init__(
        self, concurrency: int, *, per_agent: Most = None, per_tenant: Most = None, tenant_of: TenantOf | None = None
    ) -> None:
        self.concurrency = a_whole(concurrency, "the concurrency of a worker", least=1)
        self._most = {"agent": _most("per_agent", per_agent), "tenant": _most("per_tenant", per_tenant)}
        self._tenant_of = tenant_of
        self._tenants = Newest[str, tuple[int, str | None]](_MOST_TENANTS)
        """The tenants of the streams that wait, each with the version of its row."""
        self._taken: Counter[Place] = Counter()
        self._places: dict[str, tuple[Place, ...]] = {}

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more can begin, of whatever agent and tenant."""
        return len(self._places) >= self.concurrency

    async def places_of(self, row: RunSummary) -> tuple[Place, ...]:
        """Return the places that a run would take, of those that are limited."""
        places: list[Place] = []
        if self._limit(("agent", row.name)) is not None:
            places.append(("agent", row.name))
        if self._most["tenant"] and self._tenant_of is not None:
            tenant = await self._tenant(row, self._tenant_of)
            if tenant is not None and self._limit(("tenant", tenant)) is not None:
                places.append(("tenant", tenant))
        return tuple(places)

    def full(self, places: tuple[Place, ...]) -> Place | None:
        """Return the first place of these that is taken altogether; None when a run with them can begin."""
        return next((place for place in places if self._taken[place] >= (self._limit(place) or 0)), None)

    def enter(self, stream: str, places: tuple[Place, ...]) -> None:
        """Take the places for a stream."""
        self._tenants.pop(stream, None)
        self._places[stream] = places
        self._taken.update(places)

    def leave(self, stream: str) -> tuple[Place, ...]:
        """Free the places of a stream, and return them."""
        places = self._places.pop(stream)
        self._taken.subtract(places)
        self._taken += Counter()
        return places

    async def _tenant(self, row: RunSummary, tenant_of: TenantOf) -> str | None:
        """Return the tenant of a run. It is looked up once until the run moves: many may wait for one place."""
        version, tenant = self._tenants.get(row.stream, (None, None))
        # An owner that has died may have gone on without a new row.
        if version != row.version or row.is_crashed:
            tenant = await tenant_of(row)
            self._tenants.keep(row.stream, (row.version, tenant))
        return tenant

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
