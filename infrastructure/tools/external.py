"""`external_tool`: a schema and no body. The results of its calls are given with `session.answer`, from outside."""

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from steptrail.domain.errors import ConfigurationError, InvalidSetting
from steptrail.domain.failures import ErrorInfo
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ExternalRule, ToolSpec
from steptrail.infrastructure.tools.execution import unfit
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolOutcome
from steptrail.runtime.kernel.given_code import spec_of_tool

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from steptrail.runtime.agent.stored_types import StoredType


@dataclass(frozen=True, eq=False, kw_only=True)
class ExternalTool:
    """A tool whose calls are answered outside. `kind` is the type of its arguments; None where only a schema is known.

    Raises `ConfigurationError` for a spec that is not external, or with parameters that no provider takes.
    """

    spec: ToolSpec
    kind: "StoredType[Any] | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.spec.external is None:
            raise ConfigurationError(f"tool {self.spec.name!r} has a body: `external_tool` makes one without")
        spec_of_tool(self)

    def check_arguments(
        self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture
    ) -> ErrorInfo | None:
        """Return why arguments do not fit the type; None when they do. Nobody is asked about a call with others."""
        return None if self.kind is None else unfit(_Typed(self.kind), arguments, raw, capture)

    def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext[Any, Any],
        *,
        timeout: float | None,
        capture: Capture,
    ) -> Coroutine[Any, Any, ToolOutcome]:
        """Raise: a call of it is deferred, and never run."""
        raise NotImplementedError(f"the calls of {self.spec.name} are answered outside")


class _Typed:
    def __init__(self, kind: "StoredType[Any]") -> None:
        self._kind = kind

    def bind(self, arguments: Mapping[str, JsonValue], context: ToolContext) -> dict[str, object]:
        return {"arguments": self._kind.of(dict(arguments))}


def external_tool(
    name: str,
    description: str,
    parameters: "type | TypeAdapter[Any] | Mapping[str, JsonValue]",
    *,
    expires: float = ExternalRule().expires,
    result: "type | TypeAdapter[Any] | Mapping[str, JsonValue] | None" = None,
    max_calls: int | None = None,
) -> ExternalTool:
    """Make a tool without a body, for what a front end, another system or a person does.

    A call of it is stored as a question, the other calls of the reply go on, and then the run waits, as it does for
    approvals, until `session.answer` has given a result for each, from any process. The `inbox` and `state.open_calls`
    list what is asked. A call that nobody answers within `expires` seconds has failed, with an error of the type
    `timeout`. `parameters` is a type with named fields, or a JSON schema of an object. A `result` that is given is the
    type, or the JSON schema, that an answer has to fit. `max_calls` is how many calls of it a run may make.

    Raises `ConfigurationError` for what is no such type and for a schema that no answer can be compared with, and
    `MissingExtra` for a `result` without the extra `flow`, whose `jsonschema` checks answers.
    """
    kind, schema = _read(parameters, f"the parameters of external tool {name!r}")
    fits = None if result is None else _comparable(result, f"the result of external tool {name!r}")
    try:
        rule = ExternalRule(expires=expires, result=fits)
        spec = ToolSpec(
            name=name,
            description=description,
            parameters=schema,
            concurrent=True,
            max_calls=max_calls,
            takes_context=False,
            external=rule,
        )
    except InvalidSetting as error:
        raise ConfigurationError(f"external tool {name!r}: {error.problem}") from error
    return ExternalTool(spec=spec, kind=kind)


def _comparable(given: object, what: str) -> dict[str, JsonValue]:
    from steptrail.domain.flow.kinds.port import NodeFault
    from steptrail.infrastructure.flow.schemas import JsonSchemas

    _, schema = _read(given, what)
    try:
        JsonSchemas().problems(schema, None)
    except NodeFault as fault:
        raise ConfigurationError(f"{what}: {fault}") from None
    return schema


def _read(given: object, what: str) -> "tuple[StoredType[Any] | None, dict[str, JsonValue]]":
    from steptrail.runtime.agent.stored_types import StoredType

    if isinstance(given, Mapping):
        return None, dict(cast("Mapping[str, JsonValue]", given))
    try:
        kind = StoredType[Any](cast("type[Any]", given))
    except ConfigurationError as error:
        raise ConfigurationError(f"{what}: {error}") from None
    return kind, {name: value for name, value in kind.schema.items() if name != "title"}
