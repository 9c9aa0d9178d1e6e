"""The functions of a service that a workflow calls: what they are given, and what they may return."""

import inspect
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_type_hints
from weakref import WeakKeyDictionary

from steptrail.domain.continuation.names import function_name
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.flow.envelope import Artifact, Envelope
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import FilePart, Message
from steptrail.runtime.flow.values import FilesOfRun
from steptrail.runtime.kernel.files import File


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """The context of one try of a node.

    The effect id is the same over tries, crashes and machines: give it to the other side as an idempotency key. `visit`
    counts the runs of the node, `attempt` the tries of this one, both from 1. `index` is the place in its list of the
    item of a map, from 0; the item itself is `item` of the envelope.
    `deadline_seconds` is the time that the node had left when the try began; None means that there is no limit.
    `context` is what was said of the run, and `resources` is what is open for it; None when nothing is.
    """

    effect_id: str
    flow_id: str
    execution_id: str
    node: str
    visit: int
    attempt: int
    index: int | None = None
    deadline_seconds: float | None = None
    context: JsonValue = None
    resources: Any = field(default=None, repr=False, compare=False)
    report: Callable[[str, float | None, float | None], None] | None = field(default=None, repr=False, compare=False)
    files: FilesOfRun | None = field(default=None, repr=False, compare=False)

    async def file(self, value: JsonValue | FilePart) -> File:
        """Return the file for which a value of the envelope stands, or a part of a message, with its bytes.

        Raises `ConfigurationError` for a value that stands for none, and `FileUnreadable`, also for a file that is none
        of this run: a digest alone opens nothing.
        """
        return await self._files().read(value)

    def file_now(self, value: JsonValue | FilePart) -> File:
        """Return what `file` returns, to a function that is no coroutine and runs in a thread."""
        return self._files().read_in_thread(value)

    def _files(self) -> FilesOfRun:
        if self.files is None:
            raise ConfigurationError("this context belongs to no run, so it has no files")
        return self.files

    def progress(self, message: str = "", *, done: float | None = None, total: float | None = None) -> None:
        """Show the progress of the try to those who watch the run. May be called in any thread. It is not stored."""
        if self.report is not None:
            self.report(message, done, total)


NodeFunction: TypeAlias = Callable[[Envelope], object] | Callable[[Envelope, NodeContext], object]
"""A function, sync or async. It is called with an `Envelope`, or with that and a `NodeContext`."""


@dataclass(frozen=True, slots=True)
class Update:
    """The result of a function that does more than to return its output.

    `set` and `unset` change variables, set first. `messages` and `artifacts` are added to those of the envelope.
    """

    output: object = None
    set: Mapping[str, object] = field(default_factory=dict[str, object])
    unset: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()
    artifacts: tuple[Artifact, ...] = ()


def takes_context(function: NodeFunction) -> bool:
    """Tell whether a function wants a `NodeContext` beside the envelope.

    It does if its second parameter has no default, or is annotated `NodeContext`. Raises `ConfigurationError` for what
    can be called in neither way.
    """
    if not callable(function):
        raise ConfigurationError(f"{repr(function)[:100]} is no function")
    # It is asked before each call, and Python reads a signature anew each time.
    try:
        return _taking_context[function]
    except (KeyError, TypeError):  # a callable object need not have a hash
        wants = _takes_context(function)
    with suppress(TypeError):
        _taking_context[function] = wants
    return wants


def _takes_context(function: NodeFunction) -> bool:
    # A decorator may read one to its end, so it is not asked what stands below it.
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{function_name(function)} cannot be a node: it is a generator, so return the values")
    try:
        signature = inspect.signature(function)
    except ValueError:
        return False  # it has no signature that could be read
    given = [p for p in signature.parameters.values() if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    wants = len(given) > 1 and (given[1].default is inspect.Parameter.empty or _is_context(function, given[1]))
    try:
        signature.bind(*([None, None] if wants else [None]))
    except TypeError as error:
        why = f"it is called with an Envelope, or an Envelope and a NodeContext: {error}"
        raise ConfigurationError(f"{function_name(function)} cannot be a node: {why}") from None
    return wants


_taking_context: MutableMapping[NodeFunction, bool] = WeakKeyDictionary()


def _is_context(function: NodeFunction, parameter: inspect.Parameter) -> bool:
    try:
        hint = get_type_hints(function).get(parameter.name, parameter.annotation)
    except (NameError, TypeError, AttributeError):
        hint = parameter.annotation
    return hint is NodeContext or (isinstance(hint, str) and hint.rpartition(".")[2] == NodeContext.__name__)
