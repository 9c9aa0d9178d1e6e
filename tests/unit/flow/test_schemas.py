"""JSON schemas: what is wrong is told with its place, and a schema reads nothing from elsewhere."""

import socket
import sys
from typing import Any, NoReturn

import pytest

from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.errors import MissingExtra
from steptrail.infrastructure.flow.schemas import JsonSchemas

SCHEMAS = JsonSchemas()

PERSON: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}},
    "required": ["name"],
    "$defs": {"tag": {"enum": ["a", "b"]}},
}


def test_a_value_that_fits_has_no_problems() -> None:
    assert SCHEMAS.problems(PERSON, {"name": "ana", "tags": ["a", "b"]}) == ()


def test_each_problem_is_told_with_its_place() -> None:
    assert SCHEMAS.problems(PERSON, {"tags": ["a", "c"]}) == (
        "tags[1]: 'c' is not one of ['a', 'b']",
        "'name' is a required property",
    )


def test_a_long_list_of_long_problems_is_cut() -> None:
    long: list[JsonValue] = [10**300]
    found = SCHEMAS.problems({"items": {"type": "string"}}, [*long, *long * 9])
    assert len(found) == 5
    assert max(map(len, found)) < 250


@pytest.mark.parametrize(
    "schema", [{"type": "text"}, {"$ref": "#/$defs/gone"}, {"$ref": "http://127.0.0.1:9/schema.json"}, {"$ref": "#"}]
)
def test_a_schema_that_cannot_be_used_is_a_fault(schema: dict[str, JsonValue], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> NoReturn:
        raise AssertionError("a schema was looked for")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    with pytest.raises(NodeFault, match="the schema cannot be used") as caught:
        SCHEMAS.problems(schema, {})
    assert caught.value.failure is FailureClass.CONFIG


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(MissingExtra, match=r"steptrail\[flow\]"):
        JsonSchemas()
