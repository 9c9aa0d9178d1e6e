"""A type whose values are stored as JSON: its schema, and how JSON becomes a value. Imported when an agent has one."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticErrorMixin, PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import to_json
from pydantic_core.core_schema import CallSchema

from steptrail.domain.errors import ConfigurationError, NotStorable
from steptrail.domain.exception_words import cut_text, kept_text, words_of
from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputProblem
from steptrail.domain.storable import storable
from steptrail.runtime.kernel.json_form import exact_form, in_order, plain_form

T = TypeVar("T")

_INSTEAD = {"context": ": let `with_resources` open what needs it"}
_MOST_PROBLEMS = 20
_PLACE_IN_MEMORY = re.compile(r" at 0x[0-9a-fA-F]+")
_cut = partial(cut_text, most=300)


class SteadySchema(GenerateJsonSchema):
    """Writes a default that is a set in an order that is the same in each process: schemas are compared."""

    def encode_default(self, dft: Any) -> Any:
        """Return the default as JSON."""
        form: Any = super().encode_default(dft)
        return in_order(form) if isinstance(dft, set | frozenset) else form


class BareSchema(SteadySchema):
    """Leaves out the title of each field, which repeats its name, and defaults that JSON cannot hold."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Say no."""
        return False

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Say nothing about the default of a field that is left out."""


class _StoredSchema(BareSchema):
    def call_schema(self, schema: CallSchema) -> JsonSchemaValue:
        """Refuse a function, which would be called with what a model says. A named tuple is made by such a call too."""
        if not isinstance(schema["function"], type):
            raise PydanticInvalidForJsonSchema("it is a function")
        return super().call_schema(schema)


class StoredType(Generic[T]):
    """The type of an `answer` or a `context`, which `role` names.

    Raises `ConfigurationError` for one that has no JSON schema, or that holds bytes or a secret, such as a `SecretStr`.
    """

    def __init__(self, kind: "type[T] | TypeAdapter[T]", role: str = "answer") -> None:
        self.name, self._role = _name_of(kind), role
        try:
            self._adapter: TypeAdapter[T] = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
            schema = self._adapter.json_schema(schema_generator=_StoredSchema)
            self.schema = cast("dict[str, JsonValue]", storable(cast("JsonValue", schema), "schema"))
        except Exception as error:  # types bring code of their own, which may raise anything
            text = error.message if isinstance(error, PydanticErrorMixin) else str(error)
            why = text.split("\n", 1)[0].split(". Set `arbitrary_types_allowed", 1)[0]
            raise ConfigurationError(f"no {role} can be of the type {self.name}: {why}") from error
        if (place := _first(self.schema, "", lambda node: node.get("format") == "binary")) is not None:
            raise ConfigurationError(f"no {role} can be of the type {self.name}: {place or 'it'} is bytes")
        if (place := _first(self.schema, "", lambda node: node.get("writeOnly") is True)) is not None:
            why = f"{place or 'it'} is a secret, and a{'n' if role == 'answer' else ''} {role} is stored"
            raise ConfigurationError(f"no {role} can be of the type {self.name}: {why}{_INSTEAD.get(role, '')}")

    def of(self, value: JsonValue) -> T:
        """Return the value of the type. Raises `ValidationError`, and what the type's own code raises."""
        return self._adapter.validate_json(to_json(value))

    def checked(self, given: object) -> T:
        """Return what a program gave as a value of the type. Raises as `of` does."""
        return self._adapter.validate_python(given)

    def stored(self, value: T, *said: JsonValue) -> JsonValue:
        """Return the value as JSON from which `of` makes it again. Raises `NotStorable`, and as `of` does.

        What pydantic writes of a value need not be read as the same one: computed fields may be refused, fields may be
        left out or have other names. Then JSON that was `said`, or that without what is computed, is taken if it does.
        """
        plain = self.to_json(value)
        for form in self._forms(value, plain, *said):
            try:
                if self.of(form) == value:
                    return form
            except Exception:  # noqa: S112 - the type's own code says no to this form, and another one may do
                continue
        self.of(plain)  # of a type whose values equal nothing
        return plain

    def _forms(self, value: T, *known: JsonValue) -> Iterator[JsonValue]:
        yield from known
        yield self.to_json(value, round_trip=True)  # made only where none of the others is taken

    def to_json(self, value: T, *, round_trip: bool = False) -> JsonValue:
        """Return the value as JSON for the store, with `round_trip` without what is computed. Raises `NotStorable`."""
        try:
            write = partial(self._adapter.dump_python, value, by_alias=True, warnings=False, round_trip=round_trip)
            return storable(exact_form(write(mode="json"), plain_form(write, value)), f"the {self._role}")
        except NotStorable:
            raise
        except Exception as error:  # as above
            raise NotStorable(f"the {self._role}", type(value).__name__) from error

    @staticmethod
    def problems_of(error: Exception) -> tuple[OutputProblem, ...]:
        """Return what is wrong with a value, without the values that are. `error` may be any exception."""
        if not isinstance(error, ValidationError):
            return (OutputProblem(type="value_error", message=_cut(words_of(error) or type(error).__name__)),)
        found = error.errors(include_url=False, include_input=False, include_context=False)
        return tuple(
            OutputProblem(
                at=_cut(".".join(map(str, each["loc"]))) or None,
                type=each["type"],
                message=_cut(kept_text(each["msg"])),
            )
            for each in found[:_MOST_PROBLEMS]
        )

    def why_not(self, error: Exception) -> str:
        """Return the problems as one line."""
        return "; ".join(map(str, self.problems_of(error)))


def _name_of(kind: object) -> str:
    adapted: object = getattr(kind, "_type", kind)  # of an adapter, its type; no type has an attribute of that name
    if isinstance(adapted, type):
        return _cut(adapted.__name__)
    # The name is recorded: what differs in each process would make another agent of the same one.
    return _cut(_PLACE_IN_MEMORY.sub("", str(adapted)).replace("typing.", ""))


def _first(node: JsonValue, at: str, is_it: Callable[[dict[str, JsonValue]], bool]) -> str | None:
    """Return the place of the first node of a schema that is of this kind; None when there is none."""
    if isinstance(node, list):
        node = {str(place): each for place, each in enumerate(node)}
    if not isinstance(node, dict):
        return None
    if is_it(node):
        return at
    found = (_first(each, f"{at}.{key}" if at else key, is_it) for key, each in node.items() if key != "default")
    return next((place for place in found if place is not None), None)
