"""The reply of a tool that shows the model files beside its result."""

from collections.abc import Sequence
from typing import Any, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.runtime.agent.tool_port import ToolSucceeded
from steptrail.runtime.kernel.files import File
from steptrail.runtime.kernel.json_form import to_json_value


class ToolReply:
    """A result, and files that the model is shown with it. A tool may return a file, or a list of files, by itself.

    `value` is what a tool returns otherwise. Raises `ConfigurationError` for anything else than files behind it.
    """

    __slots__ = ("files", "value")

    def __init__(self, value: Any, *files: File) -> None:
        for each in files:
            if not isinstance(cast("object", each), File):
                raise ConfigurationError(f"a ToolReply holds files behind its value, not {type(each).__name__}")
        self.value, self.files = value, files


def succeeded(returned: object) -> ToolSucceeded:
    """Return the outcome of what a tool has returned. Raises `NotStorable` for what has no JSON form."""
    reply = returned if isinstance(returned, ToolReply) else _reply_of(returned)
    return ToolSucceeded(to_json_value(reply.value, "result"), files=reply.files)


def _reply_of(returned: object) -> ToolReply:
    if isinstance(returned, File):
        return ToolReply(returned.placeholder, returned)
    items = cast("Sequence[object]", returned) if isinstance(returned, list | tuple) else ()
    files = [each for each in items if isinstance(each, File)]
    return (
        ToolReply([each.placeholder for each in files], *files) if 0 < len(files) == len(items) else ToolReply(returned)
    )
