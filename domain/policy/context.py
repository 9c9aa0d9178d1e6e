"""An error as the policy sees it: its class, and how often it has happened."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol, runtime_checkable

from pydantic import Field, JsonValue

from steptrail.domain.base import FrozenModel
from steptrail.domain.failures import ErrorType
from steptrail.domain.views import StateView

__all__ = ["CanResolveErrorContext", "ErrorContext", "ErrorHandlingDecision"]


class ErrorHandlingDecision(StrEnum):
    """The decision about an error."""

    STOP = "stop"
    """The run ends."""
    RETRY = "retry"
    """The run goes on while there are retries left."""
    IGNORE = "ignore"
    """The run goes on as if nothing had happened."""


class ErrorContext(FrozenModel):
    """The error of the last step. `consecutive_failures` 0 means that there is none, whatever the total says.

    `metadata` may hold `retryable` (false: it fails the same way every time), `retryAfter` (seconds, nullable) and
    `errorClass`.
    """

    type: ErrorType
    consecutive_failures: int = Field(default=0, ge=0)
    total_failures: int = Field(default=0, ge=0)
    message: str | None = None
    tool_name: str | None = None
    metadata: dict[str, JsonValue] = Field(default={})

    @classmethod
    def none(cls) -> "ErrorContext":
        """Return the context of no error at all."""
        return cls(type=ErrorType.UNKNOWN)

    @property
    def is_permanent(self) -> bool:
        """Whether trying again is known to be useless."""
        return self.metadata.get("retryable") is False

    def to_dict(self) -> dict[str, JsonValue]:
        """Return `type`, `consecutiveFailures`, `totalFailures`, `message`, `toolName` and `metadata`."""
        return {
            "type": self.type.value,
            "consecutiveFailures": self.consecutive_failures,
            "totalFailures": self.total_failures,
            "message": self.message,
            "toolName": self.tool_name,
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, JsonValue]) -> "ErrorContext":
        """Read `to_dict` back. Raises `ValueError` when the type is missing or a value does not fit."""
        if data.get("type") is None:
            raise ValueError(f"an error context needs 'type'; it has {sorted(data)}")
        return cls.model_validate(
            {
                "type": data["type"],
                "consecutive_failures": data.get("consecutiveFailures", 0),
                "total_failures": data.get("totalFailures", 0),
                "message": data.get("message"),
                "tool_name": data.get("toolName"),
                "metadata": data.get("metadata") or {},
            }
        )


@runtime_checkable
class CanResolveErrorContext(Protocol):
    """Finds out what went wrong in the last step."""

    def resolve(self, state: StateView, /) -> ErrorContext:
        """Return the error of the last step; without one, `consecutive_failures` is 0."""
        ...
