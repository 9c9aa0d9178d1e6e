"""The envelope: all that a workflow carries from node to node, as nodes and callers read it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from steptrail.domain.base import Count, Positive, Value
from steptrail.domain.copies import own
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart, Message

Tier = Literal["node", "run"]
"""The settings that decided about a failure: those of the node, or those of the run."""


class Artifact(Value, frozen=True, kw_only=True):
    """A document that a node has made: its text, the file that it is, or the place where it can be found."""

    CONTENT = frozenset({"meta", "text", "uri"})
    STATE = frozenset({"id", "mime_type", "type"})
    id: str
    type: str | None = None
    mime_type: str | None = None
    text: str | None = None
    uri: str | None = None
    file: FilePart | None = None
    meta: dict[str, JsonValue] = {}


class NodeError(Value, frozen=True, kw_only=True):
    """A failure of a node, in whichever way the run went on.

    `attempt` is the number of its tries, 0 if the node never ran; a look after a stream below that rested is none.
    `visit` counts the runs of the node, and `item` is the index of the item of a map. `message` is the last cause, with
    the number of tries if there were several.
    `details` depends on the failure: the tool, the status of an HTTP answer, the limit and what was used of it.
    `tier` says whose settings decided. `at` is in microseconds of UTC.
    """

    CONTENT = frozenset({"details", "message"})
    STATE = frozenset({"kind", "node_id"})
    node_id: str
    kind: str
    message: str
    attempt: Count
    visit: Positive
    item: Count | None = None
    failure: FailureClass
    tier: Tier
    at: int
    details: dict[str, JsonValue] = {}
    error: ErrorInfo | None = None

    def __str__(self) -> str:
        """Return the node, with the index of its item, and the last cause: `pay[3]: no such card`.

        The cause has its class and its place where that is in your code: `pay: KeyError: 'card' (shop.py:7 in pay)`.
        """
        item, said = "" if self.item is None else f"[{self.item}]", self.message
        if self.error is not None and self.error.frames:
            said = said.removesuffix(self.error.message) + str(self.error)
        return f"{self.node_id}{item}: {said}"


class Envelope:
    """The view of a node, or the end of a run: the input, the variables, and what nodes have added. Read only.

    Whatever is read from it is a copy, so to change it changes nothing else. Values are any JSON; to type checkers they
    are `Any`, as what `json.loads` returns is.
    """

    __slots__ = ("_artifacts", "_errors", "_input", "_item", "_messages", "_trace", "_vars")

    def __init__(
        self,
        *,
        input: JsonValue = None,  # noqa: A002 - the public name
        vars: Mapping[str, JsonValue] | None = None,  # noqa: A002 - the public name
        artifacts: Sequence[Artifact] = (),
        messages: Sequence[Message] = (),
        errors: Sequence[NodeError] = (),
        trace: Mapping[str, JsonValue] | None = None,
        item: JsonValue = None,
    ) -> None:
        self._input, self._vars, self._trace = input, vars or {}, trace or {}
        self._artifacts, self._messages, self._errors, self._item = artifacts, messages, errors, item

    @property
    def input(self) -> Any:
        """The input of the run."""
        return own(self._input)

    @property
    def vars(self) -> dict[str, Any]:
        """The variables, by key."""
        return own(dict(self._vars))

    @property
    def item(self) -> Any:
        """The item that a function of a map or a filter is called for; None elsewhere."""
        return own(self._item)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The artifacts, in the order in which branches are declared."""
        return own(tuple(self._artifacts))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages, in the order in which branches are declared."""
        return own(tuple(self._messages))

    @property
    def errors(self) -> tuple[NodeError, ...]:
        """The failures that were recorded, while the run went on."""
        return own(tuple(self._errors))

    @property
    def trace(self) -> dict[str, JsonValue]:
        """The ids of the run and of what it belongs to."""
        return own(dict(self._trace))

    def has_errors(self) -> bool:
        """Tell whether a failure was recorded."""
        return bool(self._errors)

    def get(self, path: str, default: object = None) -> Any:
        """Return the variable at a path such as `plan.title`: it walks objects, then tries the path as one key."""
        is_there, value = found(self._vars, path)
        return own(value) if is_there else default

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Envelope) and all(
            getattr(self, name) == getattr(other, name)
            for name in ("input", "vars", "item", "artifacts", "messages", "errors", "trace")
        )

    __hash__ = None  # type: ignore[assignment]  # compared by content, which cannot be hashed

    def __repr__(self) -> str:
        return f"Envelope(vars={sorted(self._vars)}, errors={len(self._errors)})"


def found(tree: Mapping[str, JsonValue], path: str) -> tuple[bool, JsonValue]:
    """Return whether there is a value at a dotted path, and the value. What is no object on the way is the end."""
    value: JsonValue = cast("JsonValue", tree)
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return (True, tree[path]) if path in tree else (False, None)
        value = cast("Mapping[str, JsonValue]", value)[name]
    return True, value
