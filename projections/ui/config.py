"""How much of a run a front end is shown."""

from collections.abc import Mapping
from dataclasses import dataclass

from steptrail.domain.failures import ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.given import a_whole, check_flags
from steptrail.projections.broadcast_text import args_summary, cut_args
from steptrail.projections.serialization.messages import UNFIT_ARGUMENTS

_FAILED = "The tool failed."


@dataclass(frozen=True, slots=True, kw_only=True)
class UiConfig:
    """The details that are shown beside the words of a conversation.

    Of a call's arguments, `include_tool_args` shows all, each text cut to `max_arg_length` characters; otherwise
    `include_args_summary` shows a line about the first three. With neither no argument is shown, not even in the error
    of a call that was refused because of its arguments. `include_tool_results` shows what a tool returned,
    `include_tool_errors` why it failed or a hook blocked it. `include_continuation_trace` adds a status message with
    the decision that ended the run.

    Raises `ConfigurationError` for a length below 1, and for what is neither True nor False.
    """

    include_tool_args: bool = False
    include_args_summary: bool = True
    max_arg_length: int = 100
    include_tool_results: bool = True
    include_tool_errors: bool = True
    include_continuation_trace: bool = False

    def __post_init__(self) -> None:
        check_flags(self)
        a_whole(self.max_arg_length, "max_arg_length", least=1)

    def shown_args(self, arguments: Mapping[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        """Return the arguments as they are shown, if they are."""
        return cut_args(arguments, self.max_arg_length) if self.include_tool_args and arguments is not None else None

    def shown_summary(self, arguments: Mapping[str, JsonValue] | None) -> str | None:
        """Return the line about the arguments, where it is shown instead of them."""
        hidden = self.include_tool_args or not self.include_args_summary or arguments is None
        return None if hidden or arguments is None else args_summary(arguments)

    def shown_error(self, message: str, error_type: ErrorType | None) -> str:
        """Return the error of a call as it is shown; what has no type is not the tool's own word."""
        if error_type is ErrorType.VALIDATION and not (self.include_tool_args or self.include_args_summary):
            return UNFIT_ARGUMENTS  # such an error quotes the arguments
        return message if self.include_tool_errors or error_type is None else _FAILED
