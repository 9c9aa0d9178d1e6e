"""Model Context Protocol servers as sources of tools, over the official SDK.

The SDK is imported when a server is entered, never by these modules.
"""
