"""Events of questions to people: a node asks, a step is held, an answer is given, nobody answers in time."""

from typing import Literal

from steptrail.domain.base import Positive
from steptrail.domain.flow.events.about import VisitEvent
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event, EventKind
from steptrail.domain.messages import FilePart

StepPoint = Literal["before", "after"]
"""Where a visit is held: before it begins, or when it has ended and nothing has come of it yet."""


class HumanRequested(Event, frozen=True, kw_only=True):
    """A node asks a person. `request_id` is the effect id of the visit, and `digest` is that of the question.

    `data` are the variables that are shown. Nobody's answer by `expires_at` (microseconds of UTC) is itself an answer,
    as `on_timeout` says; None means that there is no such instant.
    """

    TYPE = "human.requested.v1"
    KIND = EventKind.INTENT
    CONTENT = frozenset({"data", "options", "prompt"})
    STATE = frozenset({"digest", "node", "request_id", "schema"})
    request_id: str
    node: str
    visit: Positive
    type: Literal["approval", "choice", "edit", "input", "review"]
    prompt: str
    data: dict[str, JsonValue] = {}
    digest: str
    options: tuple[str, ...] = ()
    schema: dict[str, JsonValue] | None = None
    expires_at: int | None = None
    on_timeout: Literal["fail", "default", "skip"]


class HumanAnswered(Event, frozen=True, kw_only=True):
    """A person answered. What an answer must hold depends on the type of the question.

    `files` are those that came with it, for which objects in `data` stand.
    """

    TYPE = "human.answered.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"choice", "data", "notes"})
    STATE = frozenset({"by", "key", "request_id"})
    request_id: str
    by: str
    choice: str | None = None
    approved: bool | None = None
    data: JsonValue = None
    files: tuple[FilePart, ...] = ()
    notes: str | None = None
    key: str | None = None


class HumanExpired(Event, frozen=True, kw_only=True):
    """Nobody answered in time."""

    TYPE = "human.expired.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"request_id"})
    request_id: str


class StepHeld(VisitEvent, frozen=True, kw_only=True):
    """A visit is held before it begins, or after it has ended, until a person says how it goes on.

    `behind` says how many microseconds the clock of the run was behind the time of day, by which people answer.
    """

    TYPE = "step.held.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"node"})
    point: StepPoint
    behind: int = 0


class StepAnswered(VisitEvent, frozen=True, kw_only=True):
    """A person said how a held visit goes on. Before it begins, variables may be set for it, then removed.

    `files` are those that came with it, for which objects in these stand. `targets` are the nodes that come next when a
    node that chooses is skipped.
    """

    TYPE = "step.answered.v1"
    KIND = EventKind.OUTSIDE
    CONTENT = frozenset({"reason", "sets"})
    STATE = frozenset({"by", "key", "node", "targets", "unsets"})
    point: StepPoint
    action: Literal["continue", "skip", "abort"]
    sets: dict[str, JsonValue] = {}
    files: tuple[FilePart, ...] = ()
    unsets: tuple[str, ...] = ()
    targets: tuple[str, ...] | None = None
    by: str
    reason: str | None = None
    key: str | None = None
