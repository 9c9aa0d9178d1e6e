"""What went wrong, as data: an exception that has crossed into the log."""

from enum import StrEnum

from pydantic import Field

from steptrail.domain.base import FrozenModel

__all__ = ["ErrorInfo", "ErrorType", "StepError"]


class ErrorType(StrEnum):
    """The class of an error, on which the error policy decides."""

    TOOL = "tool"
    MODEL = "model"
    VALIDATION = "validation"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


class ErrorInfo(FrozenModel):
    """A failure as it is recorded.

    `error_class` is `module:QualName` of the root cause that the classification went by; `causes` is the chain from
    the exception that was raised to its root, each `module:QualName: message`. `retry_after` is what the provider
    asked for, in seconds. `retryable` is false only for what fails the same way every time (a wrong key, an exhausted
    quota, a malformed request).
    """

    type: ErrorType
    error_class: str
    message: str
    causes: tuple[str, ...] = ()
    status_code: int | None = None
    code: str | None = None
    retryable: bool = True
    retry_after: float | None = Field(default=None, ge=0)


class StepError(FrozenModel):
    """One error of a step; `tool_name` names the tool when a tool call failed."""

    error: ErrorInfo
    tool_name: str | None = None
