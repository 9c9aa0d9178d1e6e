"""What the model is shown of a function."""

import dataclasses
import enum
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from steptrail.domain.errors import ConfigurationError
from steptrail.tools import ToolContext, tool


class Mode(enum.StrEnum):
    FAST = "fast"
    FULL = "full"


class Place(BaseModel):
    city: str
    country: str | None = None


@dataclasses.dataclass
class Pair:
    left: int
    right: int = 0


def schema_of(function: Any) -> Any:
    return tool(function).spec.parameters


def test_scalars_defaults_literals_and_enums() -> None:
    def search(
        query: str, limit: int = 5, order: Literal["up", "down"] = "up", mode: Mode = Mode.FAST, tag: str | None = None
    ) -> None: ...

    schema = schema_of(search)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["query"]
    assert schema["properties"] == {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 5},
        "order": {"type": "string", "enum": ["up", "down"], "default": "up"},
        "mode": {"$ref": "#/$defs/Mode", "default": "fast"},
        "tag": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    }
    assert schema["$defs"]["Mode"]["enum"] == ["fast", "full"]


def test_models_and_dataclasses_nest() -> None:
    def travel(place: Place, pairs: list[Pair]) -> None: ...

    schema = schema_of(travel)
    assert schema["properties"]["place"] == {"$ref": "#/$defs/Place"}
    assert schema["properties"]["pairs"] == {"type": "array", "items": {"$ref": "#/$defs/Pair"}}
    assert schema["$defs"]["Place"]["required"] == ["city"]
    assert set(schema["$defs"]["Pair"]["properties"]) == {"left", "right"}


def test_no_parameters_make_an_empty_object() -> None:
    def now() -> None: ...

    assert schema_of(now) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_a_field_describes_and_constrains_and_wins_over_the_docstring() -> None:
    def search(query: Annotated[str, Field(description="By field", min_length=2)], limit: int) -> None:
        """Search.

        Args:
            query: By docstring.
            limit: By docstring.
        """

    assert schema_of(search)["properties"] == {
        "query": {"type": "string", "description": "By field", "minLength": 2},
        "limit": {"type": "integer", "description": "By docstring."},
    }


def test_a_default_may_stand_in_the_field() -> None:
    def search(limit: Annotated[int, Field(default=3)]) -> None: ...

    schema = schema_of(search)
    assert schema["properties"] == {"limit": {"type": "integer", "default": 3}}
    assert "required" not in schema


def test_names_that_pydantic_keeps_for_itself_are_ordinary_parameters() -> None:
    def odd(schema: str, model_config: int, _hidden: bool, copy: str, title: str) -> None: ...

    assert list(schema_of(odd)["properties"]) == ["schema", "model_config", "_hidden", "copy", "title"]


def test_a_field_cannot_rename_a_parameter() -> None:
    def search(query: Annotated[str, Field(alias="q", validation_alias="qq")]) -> None: ...

    assert list(schema_of(search)["properties"]) == ["query"]


def test_the_context_is_no_parameter_of_the_model() -> None:
    def plain(context: ToolContext, x: int) -> None: ...
    def optional(x: int, context: ToolContext | None = None) -> None: ...
    def annotated(x: int, *, context: Annotated[ToolContext, "mine"]) -> None: ...

    for function in (plain, optional, annotated):
        assert list(schema_of(function)["properties"]) == ["x"]


def test_a_default_that_json_cannot_hold_is_left_out_of_the_schema() -> None:
    def search(limit: int | None = object()) -> None: ...  # type: ignore[assignment]  # pyright: ignore[reportArgumentType]

    assert "default" not in schema_of(search)["properties"]["limit"]


def test_the_schema_is_json() -> None:
    def search(where: Path = Path("x"), sizes: tuple[int, ...] = (1, 2)) -> None: ...

    schema = schema_of(search)
    assert json.loads(json.dumps(schema)) == schema
    assert schema["properties"]["where"]["default"] == "x"


def positional_only(a: int, /) -> None: ...
def variadic(*args: int) -> None: ...
def variadic_keywords(**options: int) -> None: ...
def two_contexts(first: ToolContext, second: ToolContext) -> None: ...
def field_default(limit: int = Field(default=3)) -> None: ...
def unresolved(ok: int, there: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]


class Opaque:
    pass


def arbitrary(ok: int, opaque: Opaque) -> None: ...
def callback(on_done: Callable[[], None]) -> None: ...


def unannotated(query) -> None:  # type: ignore[no-untyped-def]  # pyright: ignore
    ...


REFUSED: list[tuple[Any, str, str]] = [
    (positional_only, "a", "positional-only"),
    (variadic, "args", "variadic"),
    (variadic_keywords, "options", "variadic"),
    (two_contexts, "second", "second ToolContext"),
    (field_default, "limit", "Annotated"),
    (unresolved, "there", "cannot be resolved"),
    (arbitrary, "opaque", "no JSON schema"),
    (callback, "on_done", "no JSON schema"),
    (unannotated, "query", "no type annotation"),
]


@pytest.mark.parametrize(("function", "parameter", "why"), REFUSED)
def test_what_a_schema_cannot_express_is_refused_by_function_and_parameter(
    function: Any, parameter: str, why: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        tool(function)
    message = str(refused.value)
    assert repr(function.__qualname__) in message
    assert repr(parameter) in message
    assert why in message
    assert "http" not in message
    assert "\n" not in message


def test_a_default_that_no_json_has_is_refused() -> None:
    def search(limit: float = math.nan) -> None: ...

    with pytest.raises(ConfigurationError, match=r"search.*properties\.limit\.default: the number nan"):
        tool(search)


def test_a_default_that_is_a_set_stands_in_the_schema_in_the_same_order_in_each_process() -> None:
    def one(tags: frozenset[int] = frozenset([0, 8])) -> None: ...

    def same(tags: frozenset[int] = frozenset([8, 0])) -> None: ...

    assert schema_of(one) == schema_of(same)
    assert schema_of(same)["properties"]["tags"]["default"] == [0, 8]
