"""What a tool returned, as JSON and as text."""

import dataclasses
import enum
import math
from collections import OrderedDict, UserDict, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pydantic.dataclasses
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, TypeAdapter

from steptrail.domain.errors import NotStorable
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import failure_text, result_text
from steptrail.infrastructure.tools import to_json_value
from steptrail.messages import File
from steptrail.runtime.agent.tool_port import ToolFailed, ToolOutcome
from steptrail.tools import tool


class Point(BaseModel):
    x: float
    blob: bytes = b""


NOTE = File.from_bytes(b"tea")


class Scan(BaseModel):
    page: File


class Role(BaseModel, frozen=True):
    name: str


class Held(BaseModel):
    roles: set[Role]


class Noted(BaseModel):
    note: Any


@pydantic.dataclasses.dataclass
class Price:
    cents: int

    @pydantic.field_serializer("cents")
    def as_text(self, cents: int) -> str:
        return f"{cents / 100:.2f}"


@dataclasses.dataclass
class Pair:
    left: object
    right: object = None


class Row(NamedTuple):
    a: int
    b: str


class Colour(enum.Enum):
    RED = "red"
    GREEN = 2


class Loud(str):
    def __str__(self) -> str:
        return "loud"


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append({"again": CYCLE})
SHARED = [1]


CONVERTED: list[tuple[object, JsonValue]] = [
    (None, None),
    (True, True),
    (3, 3),
    (2.5, 2.5),
    ("x", "x"),
    (Loud("x"), "x"),
    (Colour.RED, "red"),
    (Colour.GREEN, 2),
    ([1, (2, 3)], [1, [2, 3]]),
    ({4}, [4]),
    (frozenset({"a"}), ["a"]),
    (set("hgfedcba"), list("abcdefgh")),
    ({Colour.RED, Colour.GREEN}, ["red", 2]),
    ({frozenset({letter}) for letter in "hgfedcba"}, [[letter] for letter in "abcdefgh"]),
    (Noted(note=set("hgfedcba")), {"note": list("abcdefgh")}),
    ({8: 0}.keys() | {0}, [0, 8]),
    (deque([1]), [1]),
    (Row(1, "b"), [1, "b"]),
    (OrderedDict(a=1), {"a": 1}),
    (UserDict({"a": 1}), {"a": 1}),
    ({Colour.RED: 1}, {"red": 1}),
    (Point(x=1.5), {"x": 1.5, "blob": ""}),
    (Pair(Point(x=1), {Colour.GREEN}), {"left": {"x": 1.0, "blob": ""}, "right": [2]}),
    (Price(250), {"cents": "2.50"}),
    (Held(roles={Role(name=letter) for letter in "hgfedcba"}), {"roles": [{"name": letter} for letter in "abcdefgh"]}),
    (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00Z"),
    (Decimal("1.10"), "1.10"),
    (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("a/b"), "a/b"),
    ([SHARED, SHARED], [[1], [1]]),
]


@pytest.mark.parametrize(("value", "result"), CONVERTED)
def test_values_become_json(value: object, result: JsonValue) -> None:
    converted = to_json_value(value)
    assert converted == result
    assert type(converted) is type(result)


def count() -> Iterator[int]:
    while True:
        yield 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, "the number nan has no JSON form"),
        ({"a": [1, math.inf]}, "at a[1]: the number inf has no JSON form"),
        (Point(x=math.nan), "at x: the number nan has no JSON form"),
        (Noted(note=math.nan), "at note: the number nan has no JSON form"),
        (Noted(note=[{"a": (1, -math.inf)}]), r"at note[0].a[1]: the number -inf has no JSON form"),
        (b"x", "bytes has no JSON form"),
        (bytearray(b"x"), "bytearray has no JSON form"),
        (Pair([b"x"]), "at left[0]: bytes has no JSON form"),
        ({1: "a"}, "a key of type int has no JSON form"),
        ({"a": {None: 1}}, "at a: a key of type NoneType has no JSON form"),
        (object(), "object has no JSON form"),
        ([NOTE], "at [0]: steptrail.runtime.kernel.files.File has no JSON form"),
        ({"a": [Scan(page=NOTE)]}, "at a[0]: tests.unit.tools.test_result.Scan with a file in it has no JSON form"),
        ([int], "at [0]: type has no JSON form"),
        (Pair, "type has no JSON form"),
        (range(3), "range has no JSON form"),
        (count(), "generator has no JSON form"),
        (map(str, [1]), "map has no JSON form"),
        ("\ud800", "text that is not valid Unicode has no JSON form"),
        ({"\ud800": 1}, "text that is not valid Unicode has no JSON form"),
    ],
)
def test_what_json_cannot_hold_is_refused_by_place_and_type(value: object, message: str) -> None:
    with pytest.raises(NotStorable) as refused:
        to_json_value(value)
    assert str(refused.value) == message


def test_an_integer_that_cannot_be_read_again_is_refused() -> None:
    for largest in (10**4299 - 1, 1 - 10**4299):
        assert msgspec.json.decode(msgspec.json.encode(to_json_value(largest))) == largest
    for beyond in (10**4299, -(10**4299)):
        with pytest.raises(NotStorable, match="an integer of more than 4299 digits has no JSON form"):
            to_json_value(beyond)


def test_a_model_whose_field_cannot_be_serialised_is_refused() -> None:
    with pytest.raises(NotStorable, match=r"at \[0\]: .*Point .*utf-8"):
        to_json_value([Point(x=1, blob=b"\xff")])


def test_what_a_serializer_says_is_told_without_credentials() -> None:
    class Shop(BaseModel):
        orders: int

        @pydantic.field_serializer("orders")
        def counted(self, orders: int) -> int:
            raise ConnectionError("postgresql://desk:a-password@shop refused")

    with pytest.raises(NotStorable, match=r"postgresql://…@shop refused"):
        to_json_value(Shop(orders=1))


def test_nesting_ends_where_stored_json_could_still_be_read() -> None:
    adapter: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
    value = to_json_value(deep(100))
    assert adapter.validate_json(adapter.dump_json(value)) == value
    with pytest.raises(NotStorable, match="nesting of more than 100 levels"):
        to_json_value(deep(101))
    with pytest.raises(NotStorable, match=r"at \[0\]\.again\[0\].*….*: nesting of more than 100 levels"):
        to_json_value(CYCLE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_json_stays_what_it_is(value: JsonValue) -> None:
    assert to_json_value(value) == value


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (2.5, "2.5"),
        ([1e16, 10**20], "[1e16,100000000000000000000]"),
        ([1, {"a": "ä"}], '[1,{"a":"ä"}]'),
        ({}, "{}"),
    ],
)
def test_the_model_reads_text_as_it_is_and_the_rest_as_compact_json(result: JsonValue, text: str) -> None:
    assert result_text(result) == text


def test_the_model_reads_why_a_call_failed() -> None:
    error = ErrorInfo(type=ErrorType.TOOL, error_class="builtins:OSError", message="disk full")
    assert failure_text(error.message) == "Error in tool call: disk full"


@pytest.mark.parametrize("is_async", [False, True])
def test_a_result_that_cannot_be_recorded_is_a_failure_of_the_tool(
    call: Callable[..., ToolOutcome], is_async: bool
) -> None:
    def read() -> bytes:
        return b"x"

    async def read_async() -> bytes:
        return b"x"

    outcome = call(tool(read_async) if is_async else tool(read))
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.type is ErrorType.TOOL
    assert outcome.error.message == "at result: bytes has no JSON form"
