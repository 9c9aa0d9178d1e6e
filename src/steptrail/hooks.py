"""Hooks: when they run, what they are, which of them run, and the ones that ship."""

from steptrail.domain.hooks.hook import CallableHook, Hook, Next
from steptrail.domain.hooks.matchers import (
    CallableMatcher,
    CompositeMatcher,
    EventTypeMatcher,
    HookMatcher,
    ToolNameMatcher,
    ToolNameRegexMatcher,
)
from steptrail.domain.hooks.ready_made import (
    CriterionHook,
    CumulativeExecutionTimeLimitHook,
    ErrorPolicyHook,
    ExecutionTimeLimitHook,
    FinishReasonHook,
    StepsLimitHook,
    TokenUsageLimitHook,
    ToolBlockingHook,
    ToolCallPresenceHook,
)
from steptrail.domain.hooks.state import CHANGES, CurrentExecution, HookState
from steptrail.domain.hooks.types import HookType
from steptrail.runtime.hook_stack import HookStack

__all__ = [
    "CHANGES",
    "CallableHook",
    "CallableMatcher",
    "CompositeMatcher",
    "CriterionHook",
    "CumulativeExecutionTimeLimitHook",
    "CurrentExecution",
    "ErrorPolicyHook",
    "EventTypeMatcher",
    "ExecutionTimeLimitHook",
    "FinishReasonHook",
    "Hook",
    "HookMatcher",
    "HookStack",
    "HookState",
    "HookType",
    "Next",
    "StepsLimitHook",
    "TokenUsageLimitHook",
    "ToolBlockingHook",
    "ToolCallPresenceHook",
    "ToolNameMatcher",
    "ToolNameRegexMatcher",
]
