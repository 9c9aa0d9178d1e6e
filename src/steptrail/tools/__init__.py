"""Tools that a model may call: `@tool`, what a tool is told, agents as tools, and what a tool without `@tool` needs."""

from steptrail.domain.tools import ApprovalRule, ExternalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.infrastructure.tools.decorator import Tool, tool
from steptrail.infrastructure.tools.external import ExternalTool
from steptrail.infrastructure.tools.reply import ToolReply
from steptrail.infrastructure.tools.subagents import SpawnSubagent, Subagent, SubagentTool
from steptrail.runtime.agent.tool_port import (
    Capture,
    RunnableTool,
    ToolContext,
    ToolFailed,
    ToolOutcome,
    ToolSucceeded,
    ToolTimedOut,
)

__all__ = [
    "ApprovalRule",
    "Capture",
    "ExternalRule",
    "ExternalTool",
    "OnUnknown",
    "RunnableTool",
    "SpawnSubagent",
    "Subagent",
    "SubagentTool",
    "Tool",
    "ToolContext",
    "ToolEffect",
    "ToolFailed",
    "ToolOutcome",
    "ToolReply",
    "ToolRetry",
    "ToolSpec",
    "ToolSucceeded",
    "ToolTimedOut",
    "tool",
]
