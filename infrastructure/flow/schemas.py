"""JSON schemas, checked by `jsonschema`. A schema reads nothing from the network."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.extras import from_extra

_MOST_PROBLEMS: Final = 5
_LONGEST: Final = 200


class JsonSchemas:
    """Checks values against JSON schemas, of the draft 2020-12 unless they name another.

    Raises `MissingExtra` without the package.
    """

    def __init__(self) -> None:
        self._jsonschema: Any = from_extra("jsonschema", "flow", "a JSON schema", "jsonschema")
        self._referencing: Any = from_extra("referencing", "flow", "a JSON schema", "jsonschema")

    def problems(self, schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
        """Return what is wrong with a value, at most five problems; `()` for nothing.

        Raises `NodeFault` of the class `config` for a schema that is none, or refers to another one.
        """
        try:
            kind = self._jsonschema.validators.validator_for(schema, default=self._jsonschema.Draft202012Validator)
        except (TypeError, AttributeError, ValueError):
            why = f"{schema.get('$schema')!r} names no draft"[:_LONGEST]
            raise NodeFault(FailureClass.CONFIG, f"the schema cannot be used: {why}") from None
        try:
            kind.check_schema(schema)
            checked = kind(schema, registry=self._referencing.Registry())
            return tuple(_said(error) for error in islice(checked.iter_errors(value), _MOST_PROBLEMS))
        except (self._jsonschema.SchemaError, self._referencing.exceptions.Unresolvable, RecursionError) as error:
            message = getattr(error, "message", None) or str(error) or type(error).__name__
            raise NodeFault(FailureClass.CONFIG, f"the schema cannot be used: {message[:_LONGEST]}") from None


def _said(error: Any) -> str:
    place = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in error.absolute_path).lstrip(".")
    message = error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]}…"
    return f"{place}: {message}" if place else str(message)
