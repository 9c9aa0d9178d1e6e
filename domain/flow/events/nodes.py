"""Events of the visits of nodes. A visit is one run of a node."""

from typing import Literal

from steptrail.domain.base import Count, Positive
from steptrail.domain.flow.envelope import Artifact, NodeError
from steptrail.domain.flow.events.about import TaskEvent, VisitEvent
from steptrail.domain.flow.route import Route
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import EventKind
from steptrail.domain.messages import Message

Token = tuple[int, int]
"""An edge that was taken, by its number in the workflow, and the number of the visit at whose end it was."""

CancelReason = Literal["stop", "sibling", "limit", "abort", "cancelled"]
"""Why a visit was given up: the run was stopped, or fails because of another node, a limit or a person."""


class NodeOpened(VisitEvent, frozen=True, kw_only=True):
    """A visit began. It takes the tokens of `inputs`, and goes on from the visits that they come from.

    `number` counts the visits of all nodes through the run, from 1. `items` is the length of the list of a map.
    """

    TYPE = "node.opened.v1"
    KIND = EventKind.ANEW
    STATE = frozenset({"inputs", "node"})
    number: Positive
    inputs: tuple[Token, ...] = ()
    items: Count | None = None


class NodeEvaluated(VisitEvent, frozen=True, kw_only=True):
    """A node that does not leave the process has its result: a router, a gate, a merge, the answer of a person.

    `sets` and `unsets` are what it changes in `vars` beside its output. `detail` depends on the kind. `kept` is the
    number of the visit whose messages and artifacts alone go on from a merge; None for those of all branches.
    """

    TYPE = "node.evaluated.v1"
    KIND = EventKind.ANEW
    CONTENT = frozenset({"artifacts", "detail", "messages", "output", "sets"})
    STATE = frozenset({"node", "unsets"})
    output: JsonValue = None
    sets: dict[str, JsonValue] = {}
    unsets: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    route: Route | None = None
    detail: dict[str, JsonValue] = {}
    kept: Count | None = None


class NodeCompleted(VisitEvent, frozen=True, kw_only=True):
    """A visit succeeded. `enables` are the numbers of the edges that are taken.

    `item_errors` counts the items of a map whose failure was recorded.
    """

    TYPE = "node.completed.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"enables", "node"})
    enables: tuple[int, ...] = ()
    route: Route | None = None
    item_errors: Count = 0


class NodeFailureRecorded(TaskEvent, frozen=True, kw_only=True):
    """A visit, or one item of a map, failed for good, and the run goes on.

    The failure is added to the errors; the variable `output_key` becomes None, and `<output_key>_error` the message.
    `rule` is the setting that decided.
    """

    TYPE = "node.failure.recorded.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"enables", "node", "output_key", "rule"})
    error: NodeError
    rule: str
    output_key: str | None = None
    enables: tuple[int, ...] = ()


class NodeFailed(TaskEvent, frozen=True, kw_only=True):
    """A visit failed for good, and with it the run. `rule` is the setting that decided."""

    TYPE = "node.failed.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"node", "rule"})
    error: NodeError
    rule: str


class NodeSkipped(VisitEvent, frozen=True, kw_only=True):
    """A person had a visit skipped that was held before it began."""

    TYPE = "node.skipped.v1"
    KIND = EventKind.INTENT
    CONTENT = frozenset({"reason"})
    STATE = frozenset({"by", "enables", "node"})
    by: str
    reason: str | None = None
    enables: tuple[int, ...] = ()


class NodeCancelled(VisitEvent, frozen=True, kw_only=True):
    """A visit was given up, because the run ends."""

    TYPE = "node.cancelled.v1"
    KIND = EventKind.INTENT
    STATE = frozenset({"node"})
    reason: CancelReason
