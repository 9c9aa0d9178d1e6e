"""Computes the delay before the next try. The random number is an argument, so a replay computes the same delay."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, structs

from steptrail.domain.base import CENTURY_SECONDS, Seconds, Settings, an_object, made
from steptrail.domain.camel_case import fields_by_key, in_camel_case
from steptrail.domain.json_value import JsonValue

_MOST_DOUBLINGS = 1000
"""2.0 ** 1000 is still a float. The delay reaches its maximum long before that."""


class BackoffKind(StrEnum):
    """The way in which the delay grows with the failures in a row."""

    NONE = "none"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class Backoff(Settings, frozen=True, kw_only=True):
    """A rule for delays, in seconds. `jitter` is the fraction by which a delay may be shortened at random."""

    kind: BackoffKind = BackoffKind.NONE
    base_seconds: Seconds = 1.0
    max_seconds: Seconds = 60.0
    jitter: Annotated[float, Meta(ge=0, le=1)] = 0.0

    @classmethod
    def none(cls) -> "Backoff":
        """Return the rule without delays. It waits only if the provider asks for it."""
        return cls()

    @classmethod
    def linear(cls, base_seconds: float = 1.0, *, max_seconds: float | None = None, jitter: float = 0.0) -> "Backoff":
        """Return the rule that waits base, 2 * base, 3 * base and so on; `max_seconds` is 60, or a longer base."""
        return cls._of(BackoffKind.LINEAR, base_seconds, max_seconds, jitter)

    @classmethod
    def exponential(
        cls, base_seconds: float = 1.0, *, max_seconds: float | None = None, jitter: float = 0.0
    ) -> "Backoff":
        """Return the rule that waits base, 2 * base, 4 * base and so on; `max_seconds` is 60, or a longer base."""
        return cls._of(BackoffKind.EXPONENTIAL, base_seconds, max_seconds, jitter)

    @classmethod
    def _of(cls, kind: BackoffKind, base: float, most: float | None, jitter: float) -> "Backoff":
        rule = cls(kind=kind, base_seconds=base, jitter=jitter)
        return structs.replace(rule, max_seconds=max(rule.max_seconds, base) if most is None else most)

    def delay(self, failures: int, draw: float, retry_after: float | None = None) -> float:
        """Return the seconds to wait after the `failures`-th failure in a row.

        `draw` is a random number in [0, 1). `retry_after` is the delay that the provider asked for, in seconds. The
        result is never less, even if that is more than `max_seconds`; it is a century at most, so that its end is a
        date. Raises `ValueError` for an argument out of range.
        """
        if failures < 1:
            raise ValueError(f"a delay follows a failure: failures is {failures}, not 1 or more")
        if not 0 <= draw < 1:
            raise ValueError(f"draw is {draw}, not in [0, 1)")
        capped = min(self._uncapped(failures), self.max_seconds)
        return min(max(capped * (1 - self.jitter * draw), retry_after or 0.0), CENTURY_SECONDS)

    def _uncapped(self, failures: int) -> float:
        match self.kind:
            case BackoffKind.NONE:
                return 0.0
            case BackoffKind.LINEAR:
                return self.base_seconds * failures
            case BackoffKind.EXPONENTIAL:
                return self.base_seconds * 2.0 ** min(failures - 1, _MOST_DOUBLINGS)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return `kind`, `baseSeconds`, `maxSeconds` and `jitter`."""
        return in_camel_case(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, JsonValue]) -> "Backoff":
        """Make a rule from the result of `to_dict`. A missing key has its default. Raises `ValueError`."""
        names = fields_by_key(cls)
        return made(cls, {names.get(key, key): value for key, value in an_object(data, "a backoff").items()})
