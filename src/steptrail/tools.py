"""Tools that a model may call: `@tool` and what it is told."""

from steptrail.domain.tools import OnUnknown, ToolEffect, ToolSpec
from steptrail.runtime.tool_port import ToolContext
from steptrail.infrastructure.tools.decorator import Tool, tool

__all__ = ["OnUnknown", "Tool", "ToolContext", "ToolEffect", "ToolSpec", "tool"]
