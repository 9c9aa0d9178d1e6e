"""Run LLM agents as event-sourced state machines that can always say why they stopped."""

import logging as _logging

from steptrail.domain.agent.config import Limits
from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.continuation.criteria import StepsLimit
from steptrail.domain.continuation.decision import StopReason
from steptrail.domain.errors import SteptrailError
from steptrail.domain.hooks.hook import Hook
from steptrail.domain.hooks.types import HookType
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.infrastructure.tools.decorator import tool
from steptrail.infrastructure.trail import Session, Steptrail
from steptrail.runtime.agent import Agent
from steptrail.runtime.builder import AgentBuilder
from steptrail.runtime.log_context import LogContext
from steptrail.runtime.result import RunResult
from steptrail.runtime.tool_port import ToolContext

__all__ = [
    "Agent",
    "AgentBuilder",
    "ContinuationCriteria",
    "ErrorPolicy",
    "Hook",
    "HookType",
    "Limits",
    "LogContext",
    "Message",
    "OnUnknown",
    "RunResult",
    "Session",
    "StepsLimit",
    "Steptrail",
    "SteptrailError",
    "StopReason",
    "ToolContext",
    "ToolEffect",
    "tool",
]

# The library is silent until its user sets logging up: Python would print warnings of loggers without any handler.
_logging.getLogger(__name__).addHandler(_logging.NullHandler())
