"""Renders errors, cuts, waits, amounts, and requests for a stop or a pause, as text or as JSON."""

from collections.abc import Iterator, Sequence
from math import floor, log10
from typing import Any

from steptrail.domain.agent.events import InferenceInterrupted, ToolExecutionInterrupted
from steptrail.domain.failures import ErrorInfo, StepError
from steptrail.domain.instants import instant_text, seconds_between, to_datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.standing import Wait
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.run import StopReason
from steptrail.domain.shared.state import StreamState

_MOST_CAUSES = 3
_MOST_DOING = 5
_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"))


def lasting(seconds: float) -> str:
    """Return a duration in its largest unit: `3 h`, `2 days`."""
    size, name = next((unit for unit in _UNITS if seconds >= unit[0]), (1, "s"))
    number = int(seconds / size)
    return many(number, name) if name == "day" else f"{number} {name}"


def since_text(at: int, now: int) -> str:
    """Return since when something has been so, in words."""
    return f"since {instant_text(at)}, {lasting(seconds_between(at, now))}"


def crash_text(worker: str, doing: Sequence[str]) -> str:
    """Return in words on which worker a run has crashed, and what that was doing."""
    return f"on {worker or 'an unknown worker'}, in {few(doing, _MOST_DOING)}"


def damage_text(version: int, damage: str | None) -> str:
    """Return the end of a verdict on a stream of which no more than the events up to a version could be read."""
    return "" if damage is None else f"; damaged: so it stood after event {version}, and {damage}"


def few(names: Sequence[str], most: int) -> str:
    """Return the first of some names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def wait_texts(waits: Sequence[Wait], now: int) -> Iterator[str]:
    """Yield of each open wait since when it lasts, and when it ends by itself."""
    for wait in waits:
        if wait.answered_at is None:
            until = "" if wait.due_at is None else f", until {instant_text(wait.due_at)}"
            yield f"{wait.kind}, {since_text(wait.since, now)}{until}"


def error_lines(error: ErrorInfo, tool: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield what is known of an error, each with its name: class and words, place, type, and causes.

    `tool` is the name of the tool that failed, if one did.
    """
    yield "error", error.said + (f", in tool {tool}" if tool else "")
    if error.place is not None:
        yield "at", error.place
    known = [f"{error.type.value} error"]
    known += [] if error.status_code is None else [f"status code {error.status_code}"]
    known += [] if error.code is None else [f"code {error.code}"]
    yield "type", ", ".join(known) + ("" if error.retryable else "; it comes again every time")
    for cause in error.causes[1 : 1 + _MOST_CAUSES]:
        yield "caused by", cause


def owner_text(is_owned: bool | None) -> str:
    """Return in words whether a process runs something; None when that cannot be told."""
    if is_owned is None:
        return "unknown: the leases beside the store cannot be read"
    return "a process is running it" if is_owned else "no process runs it"


def dollars(amount: float) -> str:
    """Return an amount for people: with cents, and of less than a dollar its first two digits, however small it is."""
    places = 2 if amount >= 1 or amount <= 0 else min(12, 1 - floor(log10(amount)))
    whole, _, part = f"{amount:,.{places}f}".partition(".")
    return f"${whole}.{part.rstrip('0'):0<2}"


def many(number: int, thing: str) -> str:
    """Return a number of things in words: `1 step`, `2,000 steps`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


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
        "statusCode": error.status_code,
        "code": error.code,
        "retryable": error.retryable,
        "place": error.place,
        "frames": list(error.frames),
        "causes": list(error.causes),
        "tool": failed.tool_name,
    }


def asked_for(state: StreamState[Any]) -> Iterator[tuple[str, Request]]:
    """Yield who asked for a pause, for its end or for a stop, each with a word that says whether it came about."""
    stopped = "stopped" if state.stop_reason is StopReason.USER_REQUESTED else "stop asked"
    told = {
        "paused": state.paused,
        "unpaused": state.unpaused,
        "pause asked": state.pause_request,
        stopped: state.stopped_by,
    }
    yield from ((what, asked) for what, asked in told.items() if asked is not None)


def asked_for_data(state: StreamState[Any]) -> dict[str, JsonValue]:
    """Return the same as JSON, in the same order; None for what nobody asked for."""
    return {
        "pausedBy": _request_data(state.paused),
        "unpausedBy": _request_data(state.unpaused),
        "pauseRequestedBy": _request_data(state.pause_request),
        "stopRequestedBy": _request_data(state.stopped_by),
    }


def _request_data(asked: Request | None) -> JsonValue:
    return None if asked is None else {"by": asked.by, "reason": asked.reason, "at": to_datetime(asked.at).isoformat()}
