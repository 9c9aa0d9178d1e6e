"""Run LLM agents as event-sourced state machines that can always say why they stopped."""

import logging as _logging

from steptrail.domain.continuation.collection import ContinuationCriteria
from steptrail.domain.continuation.limits import Limits, StepsLimit
from steptrail.domain.errors import SteptrailError
from steptrail.domain.hooks.hook import Hook
from steptrail.domain.hooks.types import HookType
from steptrail.domain.messages import Message
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.shared.run import StopReason
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.infrastructure.tools.decorator import tool
from steptrail.infrastructure.tools.external import external_tool
from steptrail.interfaces.python.session import Session
from steptrail.interfaces.python.trail import Steptrail
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.compaction import Compaction
from steptrail.runtime.agent.result import RunResult
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.log_context import LogContext

__all__ = [
    "Agent",
    "AgentBuilder",
    "Compaction",
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
    "external_tool",
    "tool",
]

# The library is silent until its user sets logging up: Python would print warnings of loggers without any handler.
_logging.getLogger(__name__).addHandler(_logging.NullHandler())
