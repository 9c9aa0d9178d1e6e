"""Tools: the decorator that makes one of a function, and the execution of one call.

The model sees a name, a description and a JSON schema; the runner sees an outcome, whatever the function did.
"""

from steptrail.infrastructure.tools.decorator import FunctionTool, Tool, tool
from steptrail.runtime.kernel.json_form import to_json_value

__all__ = ["FunctionTool", "Tool", "to_json_value", "tool"]
