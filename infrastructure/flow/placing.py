"""Finds the place in a text of what pydantic, the builder or a diagnosis says about a workflow."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from steptrail.domain.flow.diagnostic import Diagnostic
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.flow.strict_yaml import Place, path_of

WRONG_VALUE: Final = "FL-110"
"""The code of a value that cannot stand where it stands."""

_OUT_OF_RANGE = re.compile(r"Expected `(?:int|float)` [<>]=?|greater than|less than")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")

Places = Mapping[Place, tuple[int, int]]


def located(place: Place, places: Places, code: str, message: str, hint: str | None = None) -> Diagnostic:
    """Return a diagnostic about a place, with the line and column of the nearest part that the text has."""
    near = next((place[:length] for length in range(len(place), -1, -1) if place[:length] in places), None)
    line, column = (None, None) if near is None else places[near]
    if _OUT_OF_RANGE.search(message):
        code = "FL-107"
    return Diagnostic(code=code, path=path_of(place), message=message, line=line, column=column, hint=hint)


def place_in(path: str) -> Place:
    """Return the place that a path such as `nodes[3].retry` names."""
    return tuple(int(step[1]) if step[1] else step[2] for step in _STEP.finditer(path))


def problems_of(errors: Sequence[Mapping[str, Any]], value: JsonValue, places: Places) -> Iterator[Diagnostic]:
    """Yield one diagnostic for each place at which pydantic found something.

    Of a union it tells what each member misses. Only the member is told of that the value was meant to be.
    """
    found: dict[tuple[Place, object], list[Mapping[str, Any]]] = {}
    for error in errors:
        missing = error["loc"][-1] if error["type"] == "missing" else None
        found.setdefault((_place_of(error["loc"], value), missing), []).append(error)
    above = {place[:length] for place, _ in found for length in range(len(place))}
    above |= {place for place, missing in found if missing is not None}
    for (place, _), about in found.items():
        is_kind = [str(error["type"]).endswith("_type") for error in about]
        if all(is_kind) and place in above:
            continue
        yield _said(place, about[is_kind.index(False)] if False in is_kind else about[0], places)


def _said(place: Place, error: Mapping[str, Any], places: Places) -> Diagnostic:
    kind, message = str(error["type"]), str(error["msg"])
    match kind:
        case "extra_forbidden":
            return located(place, places, "GR-020", f"there is no key {place[-1]!r} here")
        case "union_tag_invalid":
            tags = cast("Mapping[str, str]", error["ctx"])
            message = f"{tags['tag']!r} is no kind of node: use one of {tags['expected_tags']}"
            return located((*place, "kind"), places, "GR-003", message)
        case "union_tag_not_found":
            return located(place, places, "GR-003", "it does not say its kind")
        case "missing":
            return located(place, places, WRONG_VALUE, f"the key {error['loc'][-1]!r} is missing")
        case _ if place == ("steptrail",):
            return located(place, places, "GR-010", "this version reads flow/v1")
        case _:
            return located(place, places, WRONG_VALUE, message)


def _place_of(loc: Sequence[str | int], value: JsonValue) -> Place:
    """Return the keys and indices of a location, without the members of unions that pydantic names in it."""
    place: list[str | int] = []
    for step in loc:
        match value:
            case dict() if step in value:
                value = value[step]
            case list() if isinstance(step, int) and step < len(value):
                value = value[step]
            case _:
                continue
        place.append(step)
    return tuple(place)
