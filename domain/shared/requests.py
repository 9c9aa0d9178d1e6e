"""The request of a person or a program to stop or to pause a run."""

from steptrail.domain.base import Value
from steptrail.domain.kernel.commands import CALLER


class Request(Value, frozen=True):
    """A person's or program's request to stop or to pause, made at the instant `at` (microseconds of UTC)."""

    by: str
    reason: str | None
    at: int

    @property
    def by_whom(self) -> str:
        """The name of the person or program, and the reason, in words: `by ana: it costs too much`."""
        return f"by {self.by}{f': {self.reason}' if self.reason else ''}"

    @property
    def is_by_person(self) -> bool:
        """Tell whether a person asked. A pause by `CALLER`, which nobody asked for, keeps no worker from the run."""
        return self.by != CALLER
