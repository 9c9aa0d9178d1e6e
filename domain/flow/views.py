"""The view that a visit has of a run: all that its causal past has written, and nothing of what runs beside it.

The view of a visit joins those of the tokens that it takes. It begins with the first one; from each further token come
the changes of the visits that are new to it, each change once, in the order in which that branch has seen them. So what
the branches share is not doubled, and the result does not depend on which of them was faster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from steptrail.domain.base import Value
from steptrail.domain.flow.envelope import Artifact, NodeError
from steptrail.domain.flow.events.nodes import Token
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.log import Log
from steptrail.domain.kernel.persistent import Layers
from steptrail.domain.messages import Message


class Delta(Value, frozen=True, kw_only=True):
    """The changes of a visit: variables are set, then others removed; the rest is added at the end.

    `kept` is the number of a visit that it comes after: of the messages and artifacts before it, only those that were
    seen there go on. None for all.
    """

    CONTENT = frozenset({"artifacts", "errors", "messages", "sets"})
    STATE = frozenset({"unsets"})
    sets: dict[str, JsonValue] = {}
    unsets: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    errors: tuple[NodeError, ...] = ()
    kept: int | None = None


class Ended(Value, frozen=True):
    """A visit that has ended: the tokens that it took, ordered by edge and visit, and what it has changed."""

    inputs: tuple[Token, ...]
    delta: Delta


class View(Struct, frozen=True, kw_only=True):
    """All that is seen at one place of a run. `past` has the bits of the numbers of the visits that it comes after.

    Bit 0 is that of the start of the run, from which all views come.
    """

    vars: Layers[str, JsonValue] = field(default_factory=Layers[str, JsonValue])
    messages: Log[Message] = field(default_factory=Log[Message])
    artifacts: Log[Artifact] = field(default_factory=Log[Artifact])
    errors: Log[NodeError] = field(default_factory=Log[NodeError])
    past: int = 1

    def with_changes(self, delta: Delta) -> "View":
        """Return this view with what a visit has changed so far."""
        return View(
            vars=self.vars.updated(delta.sets, delta.unsets),
            messages=self.messages.appended(*delta.messages) if delta.messages else self.messages,
            artifacts=self.artifacts.appended(*delta.artifacts) if delta.artifacts else self.artifacts,
            errors=self.errors.appended(*delta.errors) if delta.errors else self.errors,
            past=self.past,
        )

    def after(self, number: int, delta: Delta, views: "Mapping[int, View]") -> "View":
        """Return what is seen after the visit of this number, which began with this view.

        `views` has the views after the visits that it took tokens of.
        """
        before = self
        if delta.kept is not None and (kept := views.get(delta.kept)) is not None:
            before = replace(self, messages=kept.messages, artifacts=kept.artifacts)
        return replace(before.with_changes(delta), past=self.past | 1 << number)


def succeeded(key: str | None, output: JsonValue, delta: Delta) -> Delta:
    """Return what a successful visit changes: what it asks for itself, its output, and no error of an earlier visit."""
    if key is None:
        return delta
    error = f"{key}_error"
    sets = {**{name: value for name, value in delta.sets.items() if name not in delta.unsets}, key: output}
    removed = [name for name in (*delta.unsets, error) if name not in sets]
    return replace(delta, sets=sets, unsets=tuple(removed))


def recorded(key: str | None, *errors: NodeError) -> Delta:
    """Return what a visit changes whose failure is recorded: the errors, None as its output, and the last message."""
    sets: dict[str, JsonValue] = {} if key is None else {key: None, f"{key}_error": errors[-1].message}
    return Delta(sets=sets, errors=errors)


def together(deltas: Iterable[Delta]) -> Delta:
    """Return the changes of several visits, one after the other."""
    sets: dict[str, JsonValue] = {}
    unsets: dict[str, None] = {}
    messages: list[Message] = []
    artifacts: list[Artifact] = []
    errors: list[NodeError] = []
    for delta in deltas:
        for key, value in delta.sets.items():
            sets[key] = value
            unsets.pop(key, None)
        for key in delta.unsets:
            sets.pop(key, None)
            unsets[key] = None
        messages.extend(delta.messages)
        artifacts.extend(delta.artifacts)
        errors.extend(delta.errors)
    return Delta(
        sets=sets, unsets=tuple(unsets), messages=tuple(messages), artifacts=tuple(artifacts), errors=tuple(errors)
    )


def sources(inputs: Iterable[Token]) -> tuple[int, ...]:
    """Return the numbers of the visits that tokens come from, each once, in the order of the tokens."""
    return tuple(dict.fromkeys(number for _, number in inputs))


def joined(numbers: Sequence[int], views: Mapping[int, View], ended: Mapping[int, Ended]) -> View:
    """Return what is seen after all of these visits. `views` has the view after each of them.

    Number 0 is the start of the run. `ended` has all visits that some of them know of and others do not.
    """
    first = views[numbers[0]]
    known, news = first.past, list[Delta]()
    for number in numbers[1:]:
        new = {visit: ended[visit].delta for visit in _news(number, known, ended)}
        if any(delta.kept is not None for delta in new.values()):
            heard = frozenset(_news(number, known, ended, kept_only=True))
            new |= {visit: replace(new[visit], messages=(), artifacts=()) for visit in new if visit not in heard}
        news.extend(new.values())
        known |= views[number].past
    return replace(first.with_changes(together(news)), past=known)


def changed_apart(
    numbers: Sequence[int], views: Mapping[int, View], ended: Mapping[int, Ended]
) -> tuple[frozenset[str], ...]:
    """Return for each of these visits the variables that its branch has changed since it parted from the others.

    A variable that was changed by one branch before others began in it counts for those that changed it last. So one
    that stands in two of the sets was changed in both branches, and neither knew of the other's change.
    """
    shared = views[numbers[0]].past
    for number in numbers[1:]:
        shared &= views[number].past
    writers: dict[str, dict[int, set[int]]] = {}
    for branch, number in enumerate(numbers):
        for new in _news(number, shared, ended):
            delta = ended[new].delta
            for key in (*delta.sets, *delta.unsets):
                writers.setdefault(key, {}).setdefault(branch, set()).add(new)
    changed: list[set[str]] = [set() for _ in numbers]
    for key, by_branch in writers.items():
        for branch in _most(by_branch):
            changed[branch].add(key)
    return tuple(map(frozenset, changed))


def _most(writers: Mapping[int, set[int]]) -> list[int]:
    """Return the branches whose writers are not all among those of another branch; of equal ones, the first."""
    first: dict[frozenset[int], int] = {}
    for branch, numbers in writers.items():
        first.setdefault(frozenset(numbers), branch)
    fewest = min(map(len, first))
    larger = [numbers for numbers in first if len(numbers) > fewest]
    return [branch for numbers, branch in first.items() if not any(numbers < other for other in larger)]


def _news(number: int, known: int, ended: Mapping[int, Ended], *, kept_only: bool = False) -> Iterator[int]:
    """Yield the visits up to this one that are not among `known`, in the order in which its view has their changes.

    With `kept_only`, only those whose messages and artifacts it has.
    """

    def before(visit: int) -> Iterator[int]:
        kept = ended[visit].delta.kept
        return iter(sources(ended[visit].inputs) if kept is None or not kept_only else (kept,))

    if known >> number & 1:
        return
    seen = {number}
    way = [(number, before(number))]
    while way:
        visit, left = way[-1]
        for source in left:
            if source not in seen and not known >> source & 1:
                seen.add(source)
                way.append((source, before(source)))
                break
        else:
            way.pop()
            yield visit
