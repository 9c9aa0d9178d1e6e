"""The table of the projections of each kind of machine, by the prefix of its streams."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.by_prefix import ByPrefix
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.usage import Usage

if TYPE_CHECKING:
    from steptrail.projections.lifecycle import RunEvent
    from steptrail.projections.questions import Question
    from steptrail.projections.waterfall import Waterfall


class Explanation(Protocol):
    """Why a stream stands where it stands, of whatever kind it is.

    `verdict` is the answer in one line and `waits_for` what has to happen for it to go on, None when it waits for
    nothing. `events` maps what happened to the version of its event. `is_owned` says whether a process runs it, None
    when that cannot be told, `is_crashed` that it is open and none does. `damage` is why no more than the events before
    it could be read.
    """

    @property
    def verdict(self) -> str: ...  # noqa: D102 - the class says it
    @property
    def waits_for(self) -> str | None: ...  # noqa: D102
    @property
    def events(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def is_owned(self) -> bool | None: ...  # noqa: D102
    @property
    def is_crashed(self) -> bool: ...  # noqa: D102
    @property
    def damage(self) -> str | None: ...  # noqa: D102

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        ...


class Explainer(Protocol):
    """Explains one stream from all events that it is folded from, which it is given in order, some at a time."""

    @property
    def version(self) -> int:
        """The version of the newest event it has been given."""
        ...

    def add(self, records: Sequence[Recorded[Any]], /) -> None:
        """Take the events that come next."""
        ...

    def explanation(self, *, now: int, owned: bool | None = None, damage: str | None = None) -> Explanation:
        """Return the explanation at `now`.

        `owned` says whether some process runs the stream, `damage` why it was not given all events. Raises
        `ConfigurationError` when there is no such execution.
        """
        ...


class ExplainerOfState(NamedTuple):
    """Makes an explainer of a state, for the events that come after it.

    `make` takes the id of a stream, its state, which nobody else has, and some of the events before it: `types` maps
    stored types to bytes, and the newest event of each type counts, and those whose stored state holds the bytes.
    When the explainer has been given all events after the state, `lacks` returns in the same form which other events
    before the state it needs, and `recall` gives them to it.
    """

    types: Mapping[str, bytes]
    make: Callable[[str, Any, Sequence[Recorded[Any]]], Explainer]
    lacks: Callable[[Any], Mapping[str, bytes]]
    recall: Callable[[Any, Sequence[Recorded[Any]]], None]


class Lifecycle(Protocol):
    """Tells what each stored event of one stream means to listeners and front ends, from a state before them on."""

    @property
    def version(self) -> int:
        """The version of the newest event it has been given."""
        ...

    def copied(self) -> "Lifecycle":
        """Return one that goes on from here by itself."""
        ...

    def apply(self, record: Recorded[Any], /, *, position: int | None = None) -> "tuple[RunEvent, ...]":
        """Return the lifecycle events of the next stored event, none for most. `position` is its place in the log."""
        ...


class Bill(NamedTuple):
    """Makes a function that is given the events of `types` of one stream, in order, and returns what each bills.

    That is for the stream's own model calls, without what the streams below it were billed. No other events bill any.
    """

    types: Sequence[str]
    begin: Callable[[], Callable[[Event], Usage | None]]


StopWord: TypeAlias = Literal["step", "decision"]
"""The end of a step, or of a visit of a node, and a decision: where somebody who goes through states comes to rest."""


class StateStops(NamedTuple):
    """The places at which somebody stops who goes through the states of a stream.

    `words` are those that the kind has, and `of` tells which of them an event is; None for all others.
    """

    words: Sequence[StopWord] = ()
    of: Callable[[Event], StopWord | None] = lambda _: None


def _asks_nobody(stream: str, state: object) -> "Sequence[Question]":
    return ()


class KindProjections(NamedTuple):
    """The projections of the streams of one kind.

    `explain` takes the id of a stream without its prefix, and the id or the number of the execution that is to be
    explained, None for the newest. `lifecycle` takes the state before the first event. `questions` returns what
    people are asked, given the id of a stream and its state. `explain_state` explains the newest execution of a long
    stream sooner; None for a kind whose explainer needs all events. `waterfall` draws a stretch of events as bars over
    time; None for a kind that has none. `stops` are the places between which one goes through its states.
    """

    explain: Callable[[str, str | int | None], Explainer]
    bill: Bill
    lifecycle: Callable[[Any], Lifecycle]
    questions: Callable[[str, Any], "Sequence[Question]"] = _asks_nobody
    explain_state: ExplainerOfState | None = None
    waterfall: "Callable[[Sequence[Recorded[Any]]], Waterfall] | None" = None
    stops: StateStops = StateStops()


PROJECTIONS: ByPrefix[KindProjections] = ByPrefix(
    {
        "agent:": "steptrail.projections.agent_kind:PROJECTIONS_OF_AGENTS",
        "flow:": "steptrail.projections.flow_kind:PROJECTIONS_OF_FLOWS",
    }
)
"""Prefix of a stream -> the projections of its kind."""
