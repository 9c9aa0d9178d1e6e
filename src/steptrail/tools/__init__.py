"""Tools that a model may call: `@tool` and what it is told, and agents as tools of other agents."""

from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolRetry, ToolSpec
from steptrail.infrastructure.tools.decorator import Tool, tool
from steptrail.infrastructure.tools.subagents import SpawnSubagent, Subagent, SubagentTool
from steptrail.runtime.agent.tool_port import ToolContext

__all__ = [
    "ApprovalRule",
    "OnUnknown",
    "SpawnSubagent",
    "Subagent",
    "SubagentTool",
    "Tool",
    "ToolContext",
    "ToolEffect",
    "ToolRetry",
    "ToolSpec",
    "tool",
]
