"""Tools of Model Context Protocol servers; needs the extra `mcp`."""

from steptrail.infrastructure.mcp.description import McpToolSettings
from steptrail.infrastructure.mcp.errors import McpCallFailed, McpServerUnavailable
from steptrail.infrastructure.mcp.server import EFFECT_ID_KEY, McpOptions, McpServer
from steptrail.infrastructure.mcp.tool import McpTool

__all__ = [
    "EFFECT_ID_KEY",
    "McpCallFailed",
    "McpOptions",
    "McpServer",
    "McpServerUnavailable",
    "McpTool",
    "McpToolSettings",
]
