"""The moments at which hooks run."""

from enum import StrEnum

from steptrail.domain.kernel.given import one_of


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


def hook_type_of(given: str) -> HookType:
    """Return a hook type, also for its name. Raises `ConfigurationError` for what is none."""
    return one_of(HookType, given, "a hook", "the types")
