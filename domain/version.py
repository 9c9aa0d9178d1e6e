"""The version of this library, as executions record it."""

VERSION = "0.1.0.dev0"
"""Stands in pyproject.toml too; a test compares them."""
