"""Tools that a model may call: `@tool` and what it is told."""

from steptrail.domain.tools import ApprovalRule, OnUnknown, ToolEffect, ToolSpec
from steptrail.infrastructure.tools.decorator import Tool, tool
from steptrail.runtime.tool_port import ToolContext

__all__ = ["ApprovalRule", "OnUnknown", "Tool", "ToolContext", "ToolEffect", "ToolSpec", "tool"]
