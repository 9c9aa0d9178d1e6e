"""The filters of the list of runs, as they are in its address."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.interfaces.python.naming import stream_named
from steptrail.projections.asking.filters import RunFilter, RunOrder

__all__ = ["FILTERS", "counted_filter", "index_query", "is_counted", "since_of"]

_OF_INDEX: Final = ("status", "stop_reason", "agent", "waits_for", "parent")
_WORDS: Final = ("tool", "error_type", "error_class", "signature", "model", "resolved_by", "tenant")
_BOUNDS: Final = ("cost", "active", "tokens", "steps", "retries")
FILTERS: Final = (*_OF_INDEX, *_WORDS, "tag", "since", "until", *_BOUNDS, "order")
"""The names of all filters."""

_AGO = re.compile(r"([1-9]\d{0,3})([hdw])", re.ASCII)
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def is_counted(said: Mapping[str, str]) -> bool:
    """Tell whether filters ask for what only the read models know."""
    return said.get("status") == "crashed" or any(key not in _OF_INDEX and key in FILTERS for key in said)


def index_query(said: Mapping[str, str]) -> IndexQuery:
    """Return what to ask the index. Raises `ConfigurationError` for words that there are not."""
    return IndexQuery(
        status=said.get("status"),
        stop_reason=said.get("stop_reason"),
        name=said.get("agent"),
        waits_for=(said["waits_for"],) if "waits_for" in said else None,
        parents=(stream_named(said["parent"]),) if "parent" in said else None,
        after=stream_named(said["after"]) if "after" in said else None,
    )


def counted_filter(said: Mapping[str, str]) -> tuple[RunFilter, RunOrder]:
    """Return what to ask the read models, and the order. Raises `ConfigurationError` for what makes no sense."""
    given: dict[str, Any] = {key: said[key] for key in (*_OF_INDEX, *_WORDS) if key in said}
    if "parent" in given:
        given["parent"] = stream_named(given["parent"])
    if "tag" in said:
        name, _, value = said["tag"].partition("=")
        given["tags"] = {name: value}
    given["least"] = {key: _number(said[key]) for key in _BOUNDS if key in said}
    given["since"], given["until"] = (since_of(said[key]) if key in said else None for key in ("since", "until"))
    order = said.get("order", RunOrder.NEWEST.value)
    if order not in list(RunOrder):
        raise ConfigurationError(f"there is no order {order!r}")
    return RunFilter(**given), RunOrder(order)


def since_of(text: str) -> datetime | timedelta:
    """Return a time such as `7d`, `12h` or `2026-05-01`. Raises `ConfigurationError` for any other text."""
    found = _AGO.fullmatch(text)
    if found is not None:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is no time") from None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{text!r} is no number") from None
