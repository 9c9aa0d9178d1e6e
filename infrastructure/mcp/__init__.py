"""Model Context Protocol servers as sources of tools, over the official SDK.

The SDK is imported when a server is entered, never by these modules.
"""

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
