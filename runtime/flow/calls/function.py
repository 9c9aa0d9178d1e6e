"""A try of a node with a function of the service."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.files import refuse_absent_files
from steptrail.domain.flow.envelope import Artifact
from steptrail.domain.flow.files import Known
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.nodes import FunctionNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.commands import checked_copy
from steptrail.domain.messages import Message
from steptrail.domain.storable import type_name
from steptrail.domain.tools import ToolEffect, ToolSpec
from steptrail.runtime.flow.calls.port import Outcome, Succeeded, Try, not_brought
from steptrail.runtime.flow.functions import Update, takes_context
from steptrail.runtime.flow.values import GivenValues
from steptrail.runtime.kernel.json_form import looked_through
from steptrail.runtime.kernel.thread_calls import run_in_thread

T = TypeVar("T")

_PATIENCE_SECONDS = 1.0
"""How long a function that was cancelled may take to end."""
_BESIDE = {"sets": "set", "unsets": "unset", "messages": "messages", "artifacts": "artifacts"}
"""The fields of an outcome beside its output -> their names in an `Update`."""


class FunctionCall:
    """Calls a function: an async one in the loop, any other on a thread of its own."""

    def __init__(self, node: FunctionNode, code: object) -> None:
        if not callable(code) or isinstance(getattr(code, "spec", None), ToolSpec):
            raise not_brought(f"the function {node.function}", code)
        self._function: Callable[..., object] = code
        self._name = node.id
        self.effect: ToolEffect = node.effect
        self.usual = FailureClass.ERROR
        self.given: JsonValue = None
        self.timeout: float | None = None
        self.patience: float | None = _PATIENCE_SECONDS

    async def run(self, attempt: Try) -> Outcome:
        """Call the function, and return what it returned as JSON."""
        seen = attempt.seen.envelope()
        given = (seen, attempt.context) if takes_context(self._function) else (seen,)
        call = partial(self._function, *given)
        if inspect.iscoroutinefunction(inspect.unwrap(self._function)):
            returned = await cast("Awaitable[object]", call())
        else:
            returned = await run_in_thread(call, name=f"steptrail-node-{self._name}")
            if inspect.isawaitable(returned):
                returned = await returned
        held = [returned.output, returned.set] if isinstance(returned, Update) else returned
        outcome = await looked_through(partial(_outcome, returned, attempt.seen.files), held)
        more = [said for name, said in _BESIDE.items() if getattr(outcome, name)]
        if more and attempt.context.index is not None:
            why = f"an item of a map has an output alone, and its `Update` brings {', '.join(more)}"
            raise NodeFault(FailureClass.VALIDATION, f"{why}: let the node after the map add them")
        return outcome


def _outcome(returned: object, known: Known) -> Succeeded:
    given = GivenValues()
    try:
        return _read(returned, given, known)
    except ConfigurationError as error:
        raise NodeFault(FailureClass.VALIDATION, str(error)) from error


def _read(returned: object, given: GivenValues, known: Known) -> Succeeded:
    if not isinstance(returned, Update):
        output = given.value(returned, "output")
        given.refuse_absent("output", known)
        return Succeeded(output=output, files=given.files)
    if not isinstance(returned.set, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NodeFault(FailureClass.VALIDATION, f"set: expected a mapping, not {type_name(returned.set)}")
    sets, output = given.values(returned.set, "set"), given.value(returned.output, "output")
    messages = _all(returned.messages, Message, "messages")
    artifacts = _all(returned.artifacts, Artifact, "artifacts")
    given.refuse_absent("output", known)
    refuse_absent_files(messages, "messages", known)
    refuse_absent_files(artifacts, "artifacts", known)
    return Succeeded(
        output=output,
        sets=sets,
        unsets=_all(returned.unset, str, "unset"),
        messages=messages,
        artifacts=artifacts,
        files=given.files,
    )


def _all(given: Iterable[object], kind: type[T], field: str) -> tuple[T, ...]:
    """Return checked copies of the values of a field of an `Update`. Raises for one that could not be read back."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NodeFault(FailureClass.VALIDATION, f"{field}: expected a tuple, not {type_name(cast('object', given))}")
    found: list[T] = []
    for place, item in enumerate(given):
        if not isinstance(item, kind):
            expected = f"{field}[{place}]: expected {kind.__name__}, not {type(item).__name__}"
            raise NodeFault(FailureClass.VALIDATION, expected)
        try:
            found.append(cast("T", checked_copy(item, f"{field}[{place}]")))
        except ConfigurationError as error:
            raise NodeFault(FailureClass.VALIDATION, str(error)) from error
    return tuple(found)
