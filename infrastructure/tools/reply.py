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
            if not isinstance(cast("object", each), File) or each.data is None:
                raise ConfigurationError(f"a ToolReply holds files behind its value, with their bytes, not {each!r}")
        self.value, self.files = value, files


def succeeded(returned: object) -> ToolSucceeded:
    """Return the outcome of what a tool has returned. Raises `NotStorable` for what has no JSON form."""
    if isinstance(returned, File):
        returned = ToolReply(returned.placeholder, returned)
    elif isinstance(returned, list | tuple) and (files := _only_files(cast("Sequence[object]", returned))):
        returned = ToolReply([each.placeholder for each in files], *files)
    if isinstance(returned, ToolReply):
        return ToolSucceeded(to_json_value(returned.value, "result"), files=returned.files)
    return ToolSucceeded(to_json_value(returned, "result"))


def _only_files(items: Sequence[object]) -> tuple[File, ...]:
    files = tuple(each for each in items if isinstance(each, File))
    return files if len(files) == len(items) else ()
