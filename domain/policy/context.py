"""An error as the error policy sees it: its class, and how often it has happened."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from steptrail.domain.base import Count, Value, an_object, made
from steptrail.domain.camel_case import fields_by_key, in_camel_case
from steptrail.domain.failures import ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.views import StateView


class ErrorHandlingDecision(StrEnum):
    """The decision about an error."""

    STOP = "stop"
    """The run ends."""
    RETRY = "retry"
    """The run goes on while there are retries left."""
    IGNORE = "ignore"
    """The run goes on as if nothing had happened."""


class ErrorContext(Value, frozen=True, kw_only=True):
    """The error of the last step. With `consecutive_failures` 0 there is none, whatever the total is.

    `metadata` may hold `retryable` (false if the error comes again every time), `retryAfter` (seconds, nullable) and
    `errorClass`.
    """

    type: ErrorType
    consecutive_failures: Count = 0
    total_failures: Count = 0
    message: str | None = None
    tool_name: str | None = None
    metadata: dict[str, JsonValue] = {}

    @classmethod
    def none(cls) -> "ErrorContext":
        """Return a context without an error."""
        return cls(type=ErrorType.UNKNOWN)

    @property
    def is_permanent(self) -> bool:
        """Whether it is known that another try would fail too."""
        return self.metadata.get("retryable") is False

    def to_dict(self) -> dict[str, JsonValue]:
        """Return `type`, `consecutiveFailures`, `totalFailures`, `message`, `toolName` and `metadata`."""
        return in_camel_case(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, JsonValue]) -> "ErrorContext":
        """Make a context from the result of `to_dict`. Raises `ValueError` for a missing type or wrong values."""
        if an_object(data, "an error context").get("type") is None:
            raise ValueError(f"an error context needs 'type'; it has {sorted(data)}")
        values = {name: data[key] for key, name in fields_by_key(cls).items() if key in data}
        return made(cls, {**values, "metadata": data.get("metadata") or {}})


@runtime_checkable
class CanResolveErrorContext(Protocol):
    """Finds the error of the last step."""

    def resolve(self, state: StateView, /) -> ErrorContext:
        """Return the error of the last step; without one, `consecutive_failures` is 0."""
        ...
