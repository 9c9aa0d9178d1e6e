"""Looks at the arguments of a call before anybody is asked about it."""

from collections.abc import Mapping
from functools import partial

from steptrail.domain.base import read_back
from steptrail.domain.copies import own
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import type_name
from steptrail.runtime.agent.capture import capture


def unfit(tool: object, arguments: Mapping[str, JsonValue] | None, raw: str | None, now: int) -> ErrorInfo | None:
    """Return why arguments do not fit a tool; None when they do, or when only the call shows it.

    `tool` may be any object, and None where it is not known here. See `RunnableTool` for its `check_arguments`; where
    that raises, the call fails with what it raised, as a tool would. `now` is in microseconds of UTC.
    """
    check = getattr(tool, "check_arguments", None)
    if check is None:
        return None
    classify = partial(capture, default=ErrorType.TOOL, now=now / 1e6)
    try:
        found: object = check(own(arguments), raw, classify)
        if found is not None and not isinstance(found, ErrorInfo):
            raise TypeError(f"check_arguments() returned {type_name(found)}, not an ErrorInfo or None")
        return None if found is None else read_back(found)
    except Exception as error:
        return classify(error)
