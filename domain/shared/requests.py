"""The request of a person or a program to stop or to pause a run."""

from steptrail.domain.base import Value

__all__ = ["Request"]


class Request(Value, frozen=True):
    """A person's or program's request to stop or to pause, made at the instant `at` (microseconds of UTC)."""

    by: str
    reason: str | None
    at: int
