"""The error policy: for each class of error stop, retry or ignore, and how many failures in a row are too many.

`max_retries` counts failures in a row, and not the tries after the first: with 3, the third failure stops the run.
"""

from collections.abc import Mapping

from msgspec import structs

from steptrail.domain.base import BoundedCount, Settings, an_object, made
from steptrail.domain.camel_case import fields_by_key, in_camel_case
from steptrail.domain.failures import ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.policy.context import ErrorContext, ErrorHandlingDecision

_STOP, _RETRY, _IGNORE = ErrorHandlingDecision.STOP, ErrorHandlingDecision.RETRY, ErrorHandlingDecision.IGNORE


class ErrorPolicy(Settings, frozen=True, kw_only=True):
    """The decisions about errors, by class. A policy is stored with each execution. The default stops on any error."""

    on_tool_error: ErrorHandlingDecision = _STOP
    on_model_error: ErrorHandlingDecision = _STOP
    on_validation_error: ErrorHandlingDecision = _STOP
    on_rate_limit_error: ErrorHandlingDecision = _STOP
    on_timeout_error: ErrorHandlingDecision = _STOP
    on_unknown_error: ErrorHandlingDecision = _STOP
    max_retries: BoundedCount = 0
    backoff: Backoff = Backoff()

    @classmethod
    def stop_on_any_error(cls) -> "ErrorPolicy":
        """Return the policy that stops on any error."""
        return cls()

    @classmethod
    def retry_tool_errors(cls, max_retries: int = 3) -> "ErrorPolicy":
        """Return the policy that retries errors that may pass, and stops on an error of the model or an unknown one."""
        return cls(
            on_tool_error=_RETRY,
            on_validation_error=_RETRY,
            on_rate_limit_error=_RETRY,
            on_timeout_error=_RETRY,
            max_retries=max_retries,
        )

    @classmethod
    def ignore_tool_errors(cls) -> "ErrorPolicy":
        """Return the policy that lets the model deal with failing tools.

        It names rate limits and timeouts as errors to retry, but grants no retries: the first one stops the run. Add
        `with_max_retries(n)` to grant them.
        """
        return cls(
            on_tool_error=_IGNORE,
            on_validation_error=_IGNORE,
            on_rate_limit_error=_RETRY,
            on_timeout_error=_RETRY,
            on_unknown_error=_IGNORE,
        )

    @classmethod
    def retry_all(cls, max_retries: int = 5) -> "ErrorPolicy":
        """Return the policy that retries all errors, except those that would come again every time."""
        return cls(
            on_tool_error=_RETRY,
            on_model_error=_RETRY,
            on_validation_error=_RETRY,
            on_rate_limit_error=_RETRY,
            on_timeout_error=_RETRY,
            on_unknown_error=_RETRY,
            max_retries=max_retries,
        )

    def with_max_retries(self, max_retries: int) -> "ErrorPolicy":
        """Return a copy that stops at the `max_retries`-th failure in a row."""
        return structs.replace(self, max_retries=max_retries)

    def with_tool_error_handling(self, handling: ErrorHandlingDecision) -> "ErrorPolicy":
        """Return a copy that handles errors of tools this way."""
        return structs.replace(self, on_tool_error=handling)

    def with_model_error_handling(self, handling: ErrorHandlingDecision) -> "ErrorPolicy":
        """Return a copy that handles errors of the model this way."""
        return structs.replace(self, on_model_error=handling)

    def with_validation_error_handling(self, handling: ErrorHandlingDecision) -> "ErrorPolicy":
        """Return a copy that handles invalid arguments and invalid output this way."""
        return structs.replace(self, on_validation_error=handling)

    def with_rate_limit_error_handling(self, handling: ErrorHandlingDecision) -> "ErrorPolicy":
        """Return a copy that handles rate limits this way."""
        return structs.replace(self, on_rate_limit_error=handling)

    def with_timeout_error_handling(self, handling: ErrorHandlingDecision) -> "ErrorPolicy":
        """Return a copy that handles timeouts this way."""
        return structs.replace(self, on_timeout_error=handling)

    def with_unknown_error_handling(self, handling: ErrorHandlingDecision) -> "ErrorPolicy":
        """Return a copy that handles errors of no known class this way."""
        return structs.replace(self, on_unknown_error=handling)

    def with_backoff(self, backoff: Backoff) -> "ErrorPolicy":
        """Return a copy that waits before a retry by this rule."""
        return structs.replace(self, backoff=backoff)

    def handling_for(self, error_type: ErrorType) -> ErrorHandlingDecision:
        """Return the configured decision for a class of error."""
        handling: ErrorHandlingDecision = getattr(self, f"on_{error_type}_error")
        return handling

    def evaluate(self, context: ErrorContext) -> ErrorHandlingDecision:
        """Return the decision about an error: `ignore` if there is none, `stop` if a retry is used up or useless.

        Raises `ValueError` for an error of a type that there is not, which a context does not check when it is made.
        """
        if context.consecutive_failures == 0:
            return _IGNORE
        handling = self.handling_for(ErrorType(context.type))
        if handling is _RETRY and (context.is_permanent or context.consecutive_failures >= self.max_retries):
            return _STOP
        return handling

    def to_dict(self) -> dict[str, JsonValue]:
        """Return `onToolError`, … `onUnknownError`, `maxRetries` and `backoff`."""
        return {**in_camel_case(self), "backoff": self.backoff.to_dict()}

    @classmethod
    def from_dict(cls, data: Mapping[str, JsonValue]) -> "ErrorPolicy":
        """Make a policy from the result of `to_dict`. A missing key has its default. Raises `ValueError`."""
        names = fields_by_key(cls)
        values: dict[str, object] = {names.get(key, key): value for key, value in an_object(data, "a policy").items()}
        backoff = data.get("backoff")
        if isinstance(backoff, dict):
            values["backoff"] = Backoff.from_dict(backoff)
        return made(cls, values)
