"""The address of what the page of a run shows: which execution, which bars, which event and which state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from steptrail.domain.errors import stream_name
from steptrail.domain.shared.summary import RunSummary
from steptrail.interfaces.http.inspector.answering import NotThere, number_in, number_of_path
from steptrail.interfaces.http.inspector.bar_choice import BARS

if TYPE_CHECKING:
    from starlette.requests import Request

_KEPT = ("w", "bars")
_NUMBERS = ("w", "d", "e", "at", "from")
_SHOWN = ("w", "bars", "d", "e", "at", "from", "q", "first")


@dataclass(frozen=True, slots=True)
class Place:
    """The page of a run. `path` is its address, `canonical` that of what it shows, wherever the run goes on to.

    `alone` are the addresses, by their word, of what is said of the run alone: its state, what is found in it, why it
    stands so. `kept` says which bars are shown: what every link to another part of the page keeps.
    """

    path: str
    canonical: str
    alone: Mapping[str, str]
    kept: Mapping[str, str]

    def to(self, anchor: str = "", **given: object) -> str:
        """Return the address of a part of the page, with the bars that are shown now; None leaves something out."""
        return _address(self.path, {**self.kept, **given}) + (f"#{anchor}" if anchor else "")


def place_of(request: "Request", row: RunSummary) -> Place:
    """Return the address of the page of a run that a request is for, or is about."""
    root, name = request.scope.get("root_path", ""), quote(stream_name(row.stream), safe="")
    number = execution_in(request, row)
    of = "" if number is None else f"/{number}"
    said: dict[str, str] = {key: str(value) for key in _NUMBERS if (value := number_in(request, key)) is not None}
    if (bars := request.query_params.get("bars")) in BARS:
        said["bars"] = bars
    pinned = f"/{number or row.executions}" if row.executions else ""
    return Place(
        path=f"{root}/runs/{name}{of}",
        canonical=_address(f"{root}/runs/{name}{pinned}", said),
        alone={word: f"{root}/{word}/{name}{of}" for word in ("state", "find", "why")},
        kept={key: said[key] for key in _KEPT if key in said},
    )


def execution_in(request: "Request", row: RunSummary) -> int | None:
    """Return the number of the execution that an address names; None for the newest. Raises `NotThere`."""
    number = number_of_path(request, "ordinal")
    if number is not None and not 1 <= number <= row.executions:
        raise NotThere
    return number


def _address(path: str, said: Mapping[str, object]) -> str:
    query = urlencode({key: said[key] for key in _SHOWN if said.get(key) is not None})
    return f"{path}?{query}" if query else path
