"""The reply of a tool that shows the model files beside its result."""

from collections.abc import Sequence
from typing import Any, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.runtime.agent.tool_port import ToolSucceeded
from steptrail.runtime.kernel.files import File


class ToolReply:
    """A result, and files that the model is shown with it. A tool may return a file, or a list of files, by itself.

    `value` is what a tool returns otherwise. Raises `ConfigurationError` for anything else than files behind it.
    """

    __slots__ = ("files", "value")

    def __init__(self, value: Any, *files: File) -> None:
        for each in files:
            if not isinstance(cast("object", each), File) or each.data is None:
                raise ConfigurationError(f"a ToolReply holds files behind its value, with their bytes, not {each!r}")
        self.value, self.files = value, files


def succeeded(returned: Any) -> ToolSucceeded:
    """Return the outcome of what a tool has returned. Raises `NotStorable` for what has no JSON form."""
    reply = _reply_with_files(returned)
    return ToolSucceeded(returned) if reply is None else ToolSucceeded(reply.value, files=reply.files)


def _reply_with_files(returned: object) -> ToolReply | None:
    if isinstance(returned, ToolReply):
        return returned
    if isinstance(returned, File):
        return ToolReply(returned.placeholder, returned)
    items = cast("Sequence[object]", returned) if isinstance(returned, list | tuple) else ()
    if not (items and all(isinstance(each, File) for each in items)):
        return None
    files = cast("Sequence[File]", items)
    return ToolReply([each.placeholder for each in files], *files)
