"""A look below a run that somebody goes on with: which of the streams that rest there go on by now."""

from collections.abc import Sequence
from typing import NamedTuple

from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.lists import moved_of


class LookBelow(NamedTuple):
    """The streams that had `moved` below a run when it stood at `version`; None where none rested."""

    version: int
    moved: tuple[str, ...] | None

    @classmethod
    async def at(cls, environment: Environment, resting: Sequence[str], *, version: int, segment: int) -> "LookBelow":
        """Look after those that rest below a run at `version`, which goes on in a segment of this number.

        To go on with each of thousands takes longer than most of them do, and leaves two events in the log.
        """
        if not resting:
            return cls(version, None)
        if environment.moved is not None:
            return cls(version, environment.moved(segment))
        return cls(version, await moved_of(environment.store, resting, environment.clock.utc()))

    def of(self, version: int) -> tuple[str, ...] | None:
        """Return them for the run at `version`. None where it has grown since: other streams may rest below it then."""
        return self.moved if version == self.version else None
