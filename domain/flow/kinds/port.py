"""The ports through which instant nodes evaluate expressions and check values, and the fault that they raise."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue

MISSING_CODE = "missing"
"""The detail of a fault that names the code which nobody brought."""


class NodeFault(Exception):
    """A node has failed: with this class, this message, and details that depend on the kind."""

    def __init__(self, failure: FailureClass, message: str, details: Mapping[str, JsonValue] | None = None) -> None:
        super().__init__(message)
        self.failure, self.message = failure, message
        self.details: dict[str, JsonValue] = dict(details or {})


class MissingMeans(NodeFault):
    """A package that a node needs is not installed. A node that runs has failed."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureClass.CONFIG, message)


def without_code(what: str, instead: str) -> NodeFault:
    """Return the fault of a node whose code is not `what` is recorded, because the workflow has been changed."""
    why = f"nobody brought {what}: the workflow has {instead} at this node now; go on with one that has it"
    return NodeFault(FailureClass.CONFIG, why, {MISSING_CODE: what})


class Expressions(Protocol):
    """Evaluates the sources of CEL expressions."""

    def check(self, source: str, *, is_condition: bool) -> None:
        """Compile a source. Raises `NodeFault` of the class `config`, with the column among its details.

        `is_condition` is for a source that decides: its value must be a truth value, or of a type that shows later.
        """
        ...

    def evaluate(self, source: str, variables: Mapping[str, JsonValue], *, is_condition: bool) -> JsonValue:
        """Return the value of a source. Raises `NodeFault`: `config` as of `check`, `validation` for its value."""
        ...


class Schemas(Protocol):
    """Checks values against JSON schemas."""

    def problems(self, schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
        """Return what is wrong with a value, each with its place; `()` for nothing.

        Raises `NodeFault` of the class `config` for a schema that is none.
        """
        ...


class Patterns(Protocol):
    """Searches texts with regular expressions, in time that grows with the length of the text alone."""

    def fits(self, pattern: object, text: str) -> bool:
        """Tell whether an expression finds something in a text.

        Raises `NodeFault` of the class `config` for what is no expression, for one of more than 1,000 characters, and
        for one that looks around or back.
        """
        ...


class WebhookSender(Protocol):
    """Sends the HTTP requests of webhooks."""

    def check_sends(self) -> None:
        """Raise `MissingMeans` where the package that sends them is not installed."""
        ...


class NodeMeans(NamedTuple):
    """The means by which a node is checked and evaluated.

    `functions` are those that decide in it, by their recorded names.
    """

    expressions: Expressions
    schemas: Schemas
    patterns: Patterns
    webhooks: WebhookSender
    functions: Mapping[str, Callable[..., Any]] = {}
