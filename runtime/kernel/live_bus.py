"""The port that carries live updates between the processes that share a store."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Letter(NamedTuple):
    """A text for the process with the name `to`, or for all processes of the store."""

    to: str | None
    text: str


class LiveTraffic(Protocol):
    """The messages of one process. The bus asks for them and delivers them, from one thread of its own."""

    name: str

    def connected(self) -> None:
        """Be told that messages are delivered from now on; those that were sent before may be lost."""
        ...

    def due(self) -> tuple[Sequence[Letter], float | None]:
        """Return the letters that are to be sent now, and in how many seconds to ask again; None: not before `wake`."""
        ...

    def heard(self, text: str) -> None:
        """Be told of a message to this process or to all. Those of this process to all may come back."""
        ...


class LiveBus(Protocol):
    """Carries short texts between processes. A text may get lost; those of one sender arrive in order. None is stored.

    It has its own lines, so that no commit and no question of the store waits for it.
    """

    most_bytes: int

    def begin(self, traffic: LiveTraffic) -> None:
        """Begin to carry the messages of this process. Safe to call often, and after `close`."""
        ...

    def wake(self) -> None:
        """Ask `due` soon. May be called from any thread."""
        ...

    def close(self) -> None:
        """End it. Safe to call twice."""
        ...
