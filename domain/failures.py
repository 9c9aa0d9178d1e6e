"""The recorded form of a failure."""

from enum import StrEnum

from steptrail.domain.base import Seconds, Value


class ErrorType(StrEnum):
    """The class of an error, on which the error policy decides."""

    TOOL = "tool"
    MODEL = "model"
    VALIDATION = "validation"
    RATE_LIMIT = "rate_limit"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


class ErrorInfo(Value, frozen=True, kw_only=True):
    """A failure as it is recorded.

    `error_class` is `module:QualName` of the exception that decided the error type. `causes` is the chain from the
    exception that was raised to its root, each `module:QualName: message`. `retry_after` is the delay that the provider
    asked for, in seconds. `retryable` is false only for an error that comes again every time (a wrong key, an exhausted
    quota, a malformed request). `frames` holds at most five frames of the user's code, each `file:line in name`. The
    innermost frame of the raised exception comes first, then those of its causes.
    """

    CONTENT = frozenset({"causes", "message"})
    STATE = frozenset({"code", "error_class", "frames"})
    type: ErrorType
    error_class: str
    message: str
    causes: tuple[str, ...] = ()
    status_code: int | None = None
    code: str | None = None
    retryable: bool = True
    retry_after: Seconds | None = None
    frames: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return class, message and place: `KeyError: 'missing' (tools.py:12 in charge)`."""
        return f"{self.said} ({self.place})" if self.place else self.said

    @property
    def said(self) -> str:
        """The class of the error, without its module, and the message."""
        name = self.error_class.rpartition(":")[2].rpartition(".")[2]
        return name if self.message in {"", name} else f"{name}: {self.message}"

    @property
    def without_arguments(self) -> str:
        """The message for the run above; that of a tool which refused its arguments quotes them, and is not told."""
        is_refusal = self.type is ErrorType.VALIDATION and self.error_class.rpartition(":")[2] == "InvalidArguments"
        return "a tool refused its arguments" if is_refusal else self.message

    @property
    def place(self) -> str | None:
        """The innermost place in the user's code, as `file:line in name`; None when there is none."""
        return self.frames[0] if self.frames else None


class StepError(Value, frozen=True, kw_only=True):
    """One error of a step; `tool_name` names the tool when a tool call failed."""

    error: ErrorInfo
    tool_name: str | None = None
