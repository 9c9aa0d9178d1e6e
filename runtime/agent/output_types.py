"""The type of an agent's answer: its schema, and how JSON becomes a value of it. Imported when an agent has one."""

from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticErrorMixin
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import from_json, to_json

from steptrail.domain.errors import ConfigurationError, NotStorable
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputProblem
from steptrail.domain.storable import storable

__all__ = ["BareSchema", "OutputType", "partial_json", "problems_of"]

T = TypeVar("T")

_MOST_PROBLEMS = 20
_MOST_CHARACTERS = 300


class BareSchema(GenerateJsonSchema):
    """Leaves out the title of each field, which repeats its name, and defaults that JSON cannot hold."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Say no."""
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing about the default of a field that is left out."""


class OutputType(Generic[T]):
    """A type of answers. Raises `ConfigurationError` for one that has no JSON schema, or that holds bytes."""

    def __init__(self, kind: "type[T] | TypeAdapter[T]") -> None:
        self.name = _name_of(kind)
        try:
            self._adapter: TypeAdapter[T] = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
            schema = self._adapter.json_schema(schema_generator=BareSchema)
            self.schema = cast("dict[str, JsonValue]", storable(cast("JsonValue", schema), "schema"))
        except Exception as error:  # types bring code of their own, which may raise anything
            text = error.message if isinstance(error, PydanticErrorMixin) else str(error)
            why = text.split("\n", 1)[0].split(". Set `arbitrary_types_allowed", 1)[0]
            raise ConfigurationError(f"no answer can be of the type {self.name}: {why}") from error
        if (place := _bytes_in(self.schema, "")) is not None:
            raise ConfigurationError(f"no answer can be of the type {self.name}: {place or 'it'} is bytes")

    def of(self, value: JsonValue) -> T:
        """Return the value of the type. Raises `ValidationError`, and what the type's own code raises."""
        return self._adapter.validate_json(to_json(value))

    def to_json(self, value: T) -> JsonValue:
        """Return the value as JSON that can be stored. Raises `NotStorable`."""
        try:
            return storable(self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False), "the answer")
        except NotStorable:
            raise
        except Exception as error:  # as above
            raise NotStorable("the answer", type(value).__name__) from error


def problems_of(error: Exception) -> tuple[OutputProblem, ...]:
    """Return what is wrong with an answer, without the values that are. `error` may be any exception."""
    if not isinstance(error, ValidationError):
        return (OutputProblem(type="value_error", message=_cut(str(error) or type(error).__name__)),)
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return tuple(
        OutputProblem(at=_cut(".".join(map(str, each["loc"]))) or None, type=each["type"], message=_cut(each["msg"]))
        for each in found[:_MOST_PROBLEMS]
    )


def partial_json(text: str) -> JsonValue:
    """Return as much of a JSON value as its beginning tells. Raises `ValueError` for what is no beginning of one."""
    found: JsonValue = from_json(text, allow_partial="trailing-strings")
    return found


def _name_of(kind: object) -> str:
    adapted: object = getattr(kind, "_type", kind)  # of an adapter, its type; no type has an attribute of that name
    return _cut(adapted.__name__ if isinstance(adapted, type) else str(adapted).replace("typing.", ""))


def _bytes_in(node: JsonValue, at: str) -> str | None:
    """Return the place of the first bytes in a schema; None when there are none."""
    if isinstance(node, list):
        node = {str(place): each for place, each in enumerate(node)}
    if not isinstance(node, dict):
        return None
    if node.get("format") == "binary":
        return at
    found = (_bytes_in(each, f"{at}.{key}" if at else key) for key, each in node.items() if key != "default")
    return next((place for place in found if place is not None), None)


def _cut(text: str) -> str:
    text = text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
    # Half of a surrogate pair is legal in JSON and cannot be stored as text.
    return text.encode(errors="backslashreplace").decode()
