"""The means of a run that are not in its log: its context as a value, and the things that are opened for it."""

from collections.abc import Callable
from typing import Any, Final

from steptrail.domain.errors import ConfigurationError


class Means:
    """The means of one run in one process. `read` returns the context as a new value at each call."""

    __slots__ = ("_read", "_resources")

    def __init__(self, read: Callable[[], object] | None = None) -> None:
        self._read = read
        self._resources: tuple[object] | None = None

    @property
    def data(self) -> Any:
        """The context as a value of the type that the agent declares; None when it declares none."""
        return self._read() if self._read is not None else None

    @property
    def are_open(self) -> bool:
        """Whether things are open for the run."""
        return self._resources is not None

    @property
    def resources(self) -> Any:
        """The things that are open for the run. Raises `ConfigurationError` when none are."""
        if self._resources is None:
            why = "the agent has no `with_resources`, they could not be opened, or the run is replayed"
            raise ConfigurationError(f"no resources are open for this run: {why}")
        return self._resources[0]

    def opened(self, resources: object) -> None:
        """Take the things that were opened."""
        self._resources = (resources,)

    def closed(self) -> None:
        """Forget the things that were opened."""
        self._resources = None


NO_MEANS: Final = Means()
"""The means of a run whose agent declares no context and no resources."""
