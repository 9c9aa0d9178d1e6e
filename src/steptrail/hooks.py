"""Hooks: when they run, what they are, which of them run, the ones that ship, and what is made of several."""

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
from steptrail.runtime.agent.builder import Capability
from steptrail.runtime.agent.hook_stack import HookStack
from steptrail.runtime.agent.instructions import InstructionsState
from steptrail.runtime.agent.self_critic import Critique, Judge, SelfCritic

__all__ = [
    "CHANGES",
    "CallableHook",
    "CallableMatcher",
    "Capability",
    "CompositeMatcher",
    "CriterionHook",
    "Critique",
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
    "InstructionsState",
    "Judge",
    "Next",
    "SelfCritic",
    "StepsLimitHook",
    "TokenUsageLimitHook",
    "ToolBlockingHook",
    "ToolCallPresenceHook",
    "ToolNameMatcher",
    "ToolNameRegexMatcher",
]
