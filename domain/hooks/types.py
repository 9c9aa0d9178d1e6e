"""The moments at which hooks run."""

from enum import StrEnum

from steptrail.domain.errors import ConfigurationError


class HookType(StrEnum):
    """The moment in an execution at which a hook runs."""

    EXECUTION_START = "execution_start"
    BEFORE_STEP = "before_step"
    BEFORE_INFERENCE = "before_inference"
    AFTER_INFERENCE = "after_inference"
    PRE_TOOL_USE = "pre_tool_use"
    POST_TOOL_USE = "post_tool_use"
    AFTER_STEP = "after_step"
    ON_ERROR = "on_error"
    STOP = "stop"
    EXECUTION_END = "execution_end"

    def is_tool_event(self) -> bool:
        """Tell whether hooks of this type are about one tool call."""
        return self in {HookType.PRE_TOOL_USE, HookType.POST_TOOL_USE}

    def is_inference_event(self) -> bool:
        """Tell whether hooks of this type are about one model call."""
        return self in {HookType.BEFORE_INFERENCE, HookType.AFTER_INFERENCE}

    def is_step_event(self) -> bool:
        """Tell whether hooks of this type are about one step."""
        return self in {HookType.BEFORE_STEP, HookType.AFTER_STEP}

    def is_execution_event(self) -> bool:
        """Tell whether hooks of this type are about the execution as a whole."""
        return self in {HookType.EXECUTION_START, HookType.EXECUTION_END, HookType.STOP}

    def is_error_event(self) -> bool:
        """Tell whether hooks of this type are about a failed step."""
        return self is HookType.ON_ERROR


def hook_type_of(given: str) -> HookType:
    """Return a hook type, also for its name. Raises `ConfigurationError` for what is none."""
    try:
        return HookType(given)
    except ValueError:
        known = ", ".join(each.value for each in HookType)
        raise ConfigurationError(f"{given!r} is not a hook type; they are {known}") from None
