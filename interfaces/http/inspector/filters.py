"""The filters of the list of runs, as they are in its address."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.interfaces.cli.times import time_of
from steptrail.interfaces.python.naming import stream_named
from steptrail.projections.asking.filters import RunFilter, RunOrder

_OF_INDEX: Final = ("status", "stop_reason", "agent", "waits_for", "parent")
_WORDS: Final = ("tool", "error_type", "error_class", "signature", "model", "resolved_by", "tenant")
_BOUNDS: Final = ("cost", "active", "tokens", "steps", "retries")
LABELS: Final[Mapping[str, str]] = {
    "status": "Status",
    "stop_reason": "Stop reason",
    "waits_for": "Waits for",
    "agent": "Agent or workflow",
    "since": "Since",
    "order": "Order",
    "tool": "Failed tool or node",
    "error_type": "Type of error",
    "error_class": "Class of error",
    "signature": "Failure",
    "model": "Model",
    "resolved_by": "Decided by",
    "tag": "Tag",
    "until": "Until",
    "cost": "Dollars, at least",
    "active": "Active seconds, at least",
    "tokens": "Tokens, at least",
    "steps": "Steps, at least",
    "retries": "Retries, at least",
    "parent": "Begun by",
    "tenant": "Tenant",
    "score": "Score",
}
FILTERS: Final = tuple(LABELS)
"""The names of all filters."""
_FIXED: Final = frozenset({"status", "stop_reason", "waits_for", "order"})
"""The filters whose values are words of ours."""
_LONGEST: Final = 200
"""Characters of a value."""


class Chip(NamedTuple):
    """One filter in words, and the others, which stay when it is taken away."""

    said: str
    others: Mapping[str, str]


def chips(filters: Mapping[str, str]) -> Sequence[Chip]:
    """Return the filters of a list one by one."""
    return [
        Chip(
            said=f"{LABELS[key]}: {value.replace('_', ' ') if key in _FIXED else value}",
            others={other: kept for other, kept in filters.items() if other != key},
        )
        for key, value in filters.items()
    ]


def said_in(query: Mapping[str, str]) -> Mapping[str, str]:
    """Return what an address says of a list: each filter that has a value, and `after`."""
    return {key: query[key] for key in (*FILTERS, "after") if query.get(key)}


def fits(said: Mapping[str, str]) -> None:
    """Raise the `ConfigurationError` about a value that no run can have: a list of others would be a lie."""
    # No server takes a NUL in a text.
    wrong = [LABELS.get(key, key) for key, value in said.items() if len(value) > _LONGEST or "\0" in value]
    if wrong:
        raise ConfigurationError(f"{', '.join(wrong)}: a text of at most {_LONGEST} characters, without a NUL")


def is_counted(said: Mapping[str, str]) -> bool:
    """Tell whether filters ask for what only the read models know."""
    return said.get("status") == "crashed" or any(key not in _OF_INDEX and key in FILTERS for key in said)


def index_query(said: Mapping[str, str]) -> IndexQuery:
    """Return what to ask the index. Raises `ConfigurationError` for words that there are not."""
    counted_filter(said)
    return IndexQuery(
        status=said.get("status"),
        stop_reason=said.get("stop_reason"),
        name=said.get("agent"),
        waits_for=(said["waits_for"],) if "waits_for" in said else None,
        parents=(stream_named(said["parent"]),) if "parent" in said else None,
    )


def counted_filter(said: Mapping[str, str]) -> tuple[RunFilter, RunOrder]:
    """Return what to ask the read models, and the order. Raises `ConfigurationError` for what makes no sense."""
    fits(said)
    given: dict[str, Any] = {key: said[key] for key in (*_OF_INDEX, *_WORDS) if key in said}
    if "parent" in given:
        given["parent"] = stream_named(given["parent"])
    if "tag" in said:
        name, _, value = said["tag"].partition("=")
        given["tags"] = {name: value}
    if "score" in said:
        given["scores"] = [said["score"]]
    faults = list[str]()
    given["least"] = {}
    for key in (*_BOUNDS, "since", "until"):
        try:
            if key in said and key in _BOUNDS:
                given["least"][key] = _number(key, said[key])
            elif key in said:
                given[key] = time_of(said[key])
        except (ConfigurationError, ValueError) as error:
            faults.append(str(error))
    order = said.get("order", RunOrder.NEWEST.value)
    if order not in list(RunOrder):
        faults.append(f"there is no order {order!r}: there are {', '.join(RunOrder)}")
    try:
        found = RunFilter(**given)
    except ConfigurationError as error:
        faults.insert(0, str(error))
    else:
        if not faults:
            return found, RunOrder(order)
    raise ConfigurationError("; ".join(faults))


def _number(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{LABELS[key]}: {text!r} is no number") from None
