"""The view of a node that is evaluated, the paths into it, and the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from steptrail.domain.base import full_form
from steptrail.domain.flow.envelope import Artifact, Envelope, NodeError, found
from steptrail.domain.flow.files import Known
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.flow.route import Route
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart, Message

ROOTS = ("vars", "input", "item", "index", "errors", "messages", "artifacts")
"""The first words of paths that do not begin with the name of a variable."""

_OF_VALUES = frozenset({"errors", "messages", "artifacts"})
"""Those of them that hold values, which paths see as JSON."""

_MOST = 32
"""How many names a message says of what is there, and how much of each."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The view of a node. `item` and `index` are set inside a map or a filter.

    `successors` are the nodes to which its plain edges lead, in the order of the edges. `files` are those for which
    objects in the values may stand.
    """

    input: JsonValue = None
    vars: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    messages: Sequence[Message] = ()
    artifacts: Sequence[Artifact] = ()
    errors: Sequence[NodeError] = ()
    trace: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    item: JsonValue = None
    index: int | None = None
    successors: tuple[str, ...] = ()
    files: Known = field(default_factory=dict[str, FilePart])

    def find(self, path: str) -> tuple[bool, JsonValue]:
        """Return whether there is a value at a path, and the value.

        A path begins with one of `ROOTS`, such as `input.id`, or with the name of a variable.
        """
        root, _, rest = path.partition(".")
        if root not in ROOTS:
            return found(self.vars, path)
        value = self.root(root)
        if not rest:
            # The variables of a run are held in layers, which are no JSON.
            return True, dict(self.vars) if root == "vars" else value
        return found(cast("Mapping[str, JsonValue]", value), rest) if isinstance(value, Mapping) else (False, None)

    def listed(self, path: str) -> list[JsonValue] | None:
        """Return the list at a path; None for no value, and for one that is no list."""
        value = self.find(path)[1]
        return value if isinstance(value, list) else None

    def item_at(self, path: str, index: int) -> JsonValue:
        """Return an item of the list at a path; None for no value, and for one that is no list."""
        if path in _OF_VALUES:  # not all of them are made JSON for each
            return cast("JsonValue", full_form(getattr(self, path)[index]))
        listed = self.listed(path)
        return None if listed is None else listed[index]

    def root(self, name: str) -> JsonValue:
        """Return all that stands under one of `ROOTS`."""
        value = getattr(self, name)
        return cast("JsonValue", full_form(list(value)) if name in _OF_VALUES else value)

    def envelope(self) -> Envelope:
        """Return the view as functions read it."""
        return Envelope(
            input=self.input,
            vars=self.vars,
            messages=self.messages,
            artifacts=self.artifacts,
            errors=self.errors,
            trace=self.trace,
            item=self.item,
        )


class Evaluated(NamedTuple):
    """The result of a node. `sets` and `unsets` are what it changes in `vars` beside its output.

    `route` names the nodes that come next; None for all to which its edges lead. `kept` is the number of the visit
    whose messages and artifacts alone go on from a merge; None for those of all branches.
    """

    output: JsonValue = None
    sets: dict[str, JsonValue] = {}
    unsets: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    route: Route | None = None
    detail: dict[str, JsonValue] = {}
    kept: int | None = None


def needed(seen: Seen, path: str) -> JsonValue:
    """Return the value at a path. Raises `NodeFault` of the class `config` when there is none."""
    is_there, value = seen.find(path)
    if not is_there:
        raise NodeFault(
            FailureClass.CONFIG, f"there is nothing at {path!r}: {_what_is_there(seen, path)}", {"path": path}
        )
    return value


def needed_list(seen: Seen, path: str) -> list[JsonValue]:
    """Return the list at a path. Raises `NodeFault`: `config` for no value, `validation` for one that is no list."""
    value = needed(seen, path)
    if not isinstance(value, list):
        kind = "null" if value is None else type(value).__name__
        why = f"at {path!r} stands no list, but a value of the type {kind}"
        raise NodeFault(FailureClass.VALIDATION, why, {"path": path})
    return value


def _what_is_there(seen: Seen, path: str) -> str:
    """Return in words what the nearest value above a path holds, such as `'doc' has 'title', 'text'`."""
    above = path.rpartition(".")[0]
    while above and not seen.find(above)[0]:
        above = above.rpartition(".")[0]
    above = above or "vars"
    value = seen.find(above)[1]
    if not isinstance(value, Mapping):
        return f"{above!r} is no object"
    names = [repr(name[:_MOST]) for name in sorted(value)]
    return f"{above!r} has {', '.join(names[:_MOST]) or 'nothing'}{' and more' if len(names) > _MOST else ''}"
