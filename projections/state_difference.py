"""The difference of two states of a run, by path, from their JSON: for `show --from` and for pages that compare."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Literal, NamedTuple

from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import result_text

MOST_CHANGES = 500
"""How many changes a difference holds at most."""

_SHOWN_CHARACTERS = 80
_AROUND = 20
"""Characters that two texts have in common and that are shown before the place where they part."""


class StateChange(NamedTuple):
    """One change: a value that was added, removed, or is another one. A value that is not there is None.

    `path` is written as in Python and JavaScript: `messages[6]`, `steps[2].status`, `vars["two words"]`.
    """

    path: str
    kind: Literal["added", "removed", "changed"]
    before: JsonValue
    after: JsonValue

    def __str__(self) -> str:
        """Return the change on one line, long values cut."""
        match self.kind:
            case "added":
                return f"+ {self.path}: {_cut(result_text(self.after))}"
            case "removed":
                return f"- {self.path}: {_cut(result_text(self.before))}"
            case "changed":
                before, after = result_text(self.before), result_text(self.after)
                is_long = max(len(before), len(after)) > _SHOWN_CHARACTERS
                start = max(0, in_common(before, after) - _AROUND) if is_long else 0
                return f"~ {self.path}: {_cut(before, start)} → {_cut(after, start)}"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return it as JSON, the values whole."""
        return {"path": self.path, "kind": self.kind, "before": self.before, "after": self.after}


class StateDifference(NamedTuple):
    """The changes, in the order of the first state; `is_cut` says that there is more."""

    changes: tuple[StateChange, ...]
    is_cut: bool


def state_difference(before: JsonValue, after: JsonValue, *, limit: int = MOST_CHANGES) -> StateDifference:
    """Return what differs in two JSON values, at most `limit` changes.

    Lists are compared item by item. What is there on one side only is one change, however much it holds.
    """
    found = list(islice(_changes("", before, after), limit + 1))
    return StateDifference(tuple(found[:limit]), len(found) > limit)


def _changes(path: str, before: JsonValue, after: JsonValue) -> Iterator[StateChange]:
    if before is after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key, value in before.items():
            if key in after:
                yield from _changes(_key(path, key), value, after[key])
            else:
                yield StateChange(_key(path, key), "removed", value, None)
        for key, value in after.items():
            if key not in before:
                yield StateChange(_key(path, key), "added", None, value)
    elif isinstance(before, list) and isinstance(after, list):
        for place, (was, is_now) in enumerate(zip(before, after, strict=False)):
            yield from _changes(f"{path}[{place}]", was, is_now)
        for place in range(len(after), len(before)):
            yield StateChange(f"{path}[{place}]", "removed", before[place], None)
        for place in range(len(before), len(after)):
            yield StateChange(f"{path}[{place}]", "added", None, after[place])
    elif type(before) is not type(after) or before != after:
        # In Python `True == 1` and `1 == 1.0`. In JSON they are written differently.
        yield StateChange(path, "changed", before, after)


def _key(path: str, key: str) -> str:
    if not key.isidentifier():
        return f"{path}[{result_text([key])[1:-1]}]"
    return f"{path}.{key}" if path else key


def in_common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _cut(text: str, start: int = 0) -> str:
    shown = text[start : start + _SHOWN_CHARACTERS]
    return f"{'…' if start else ''}{shown}{'…' if start + len(shown) < len(text) else ''}"
