"""Renders errors, cuts, and requests for a stop or a pause, as text or as JSON."""

from steptrail.domain.agent.events import InferenceInterrupted, ToolExecutionInterrupted
from steptrail.domain.failures import StepError
from steptrail.domain.instants import to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.requests import Request

__all__ = ["by_whom", "error_data", "many", "owner_text", "request_data", "why_cut"]


def by_whom(asked: Request) -> str:
    """Return who asked for something, and why, in words."""
    return f"by {asked.by}{f': {asked.reason}' if asked.reason else ''}"


def owner_text(is_owned: bool | None) -> str:
    """Return in words whether a process runs something; None when that cannot be told."""
    if is_owned is None:
        return "unknown: the leases beside the store cannot be read"
    return "a process is running it" if is_owned else "no process runs it"


def many(number: int, thing: str) -> str:
    """Return a number of things in words: `1 step`, `2 steps`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def why_cut(event: InferenceInterrupted | ToolExecutionInterrupted) -> str:
    """Return what cut a call off, in words; for a deadline, with the limit or timeout that set it."""
    return event.reason if event.cut_by is None else f"{event.reason} ({event.cut_by})"


def error_data(failed: StepError | None) -> JsonValue:
    """Return an error as JSON; None when there is none."""
    if failed is None:
        return None
    error = failed.error
    return {
        "type": error.type.value,
        "class": error.error_class,
        "message": error.message,
        "place": error.place,
        "frames": list(error.frames),
        "causes": list(error.causes),
        "tool": failed.tool_name,
    }


def request_data(asked: Request | None) -> JsonValue:
    """Return who asked for something, and why, as JSON; None when nobody did."""
    return None if asked is None else {"by": asked.by, "reason": asked.reason, "at": to_datetime(asked.at).isoformat()}
