"""Tools of Model Context Protocol servers; needs the extra `mcp`."""

from steptrail.infrastructure.mcp import (
    EFFECT_ID_KEY,
    McpCallFailed,
    McpOptions,
    McpServer,
    McpServerUnavailable,
    McpTool,
    McpToolSettings,
)

__all__ = [
    "EFFECT_ID_KEY",
    "McpCallFailed",
    "McpOptions",
    "McpServer",
    "McpServerUnavailable",
    "McpTool",
    "McpToolSettings",
]
