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

_SHOWN = ("w", "bars", "asks", "d", "e", "at", "from", "q", "first")
_NUMBERS = {"w": "until", "asks": "asks", "d": "decision", "e": "event", "at": "at", "from": "since"}
"""The numbers that an address holds, by their words in it, as the fields of `Place`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The page of a run, and the part of the run that it is asked for.

    `path` is its address, `canonical` that of what it shows, wherever the run goes on to. `alone` are the addresses, by
    their word, of what is said of the run alone: its state, what is found in it, why it stands so.

    The part is an execution by its number, an `event` that is shown whole, the event `until` which bars are drawn, that
    of a `decision`, and the event `at` which the state is shown. None means the newest; no state is shown then. With
    `since` the state comes with what is new since that event. `bars` says which bars are shown, one of `BARS`; None for
    all. `asks` is the number of the first open question that is shown.
    """

    path: str
    canonical: str
    alone: Mapping[str, str]
    execution: int | None
    event: int | None
    until: int | None
    decision: int | None
    at: int | None
    since: int | None
    bars: str | None
    asks: int | None

    @property
    def kept(self) -> Mapping[str, object]:
        """Which bars are shown: what every link to another part of the page keeps."""
        return {key: value for key, value in (("w", self.until), ("bars", self.bars)) if value is not None}

    def to(self, anchor: str = "", **given: object) -> str:
        """Return the address of a part of the page, with the bars that are shown now; None leaves something out."""
        return _address(self.path, {**self.kept, **given}) + (f"#{anchor}" if anchor else "")


def place_of(request: "Request", row: RunSummary) -> Place:
    """Return the page of a run that a request is for, or is about. Raises `NotThere` for no execution of it."""
    root, name = quote(request.scope.get("root_path", "")), quote(stream_name(row.stream), safe="")
    number = number_of_path(request, "ordinal")
    if number is not None and not 1 <= number <= row.executions:
        raise NotThere
    of = "" if number is None else f"/{number}"
    bars = request.query_params.get("bars")
    bars = bars if bars in BARS else None
    numbers = {word: number_in(request, word) for word in _NUMBERS}
    pinned = f"/{number or row.executions}" if row.executions else ""
    return Place(
        path=f"{root}/runs/{name}{of}",
        canonical=_address(f"{root}/runs/{name}{pinned}", {**numbers, "bars": bars}),
        alone={word: f"{root}/{word}/{name}{of}" for word in ("state", "find", "why")},
        execution=number,
        bars=bars,
        **{field: numbers[word] for word, field in _NUMBERS.items()},
    )


def _address(path: str, said: Mapping[str, object]) -> str:
    query = urlencode({key: said[key] for key in _SHOWN if said.get(key) is not None})
    return f"{path}?{query}" if query else path
