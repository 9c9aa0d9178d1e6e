"""One function says what may be stored of JSON that comes from outside."""

import math
from collections import OrderedDict
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from steptrail.domain.json_value import JsonValue
from steptrail.domain.storable import storable
from steptrail.errors import NotStorable, SteptrailError


class Colour(StrEnum):
    RED = "red"


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "place", "what"),
    [
        (math.nan, "m", "the number nan"),
        ({"a": [1, -math.inf]}, "m.a[1]", "the number -inf"),
        ({"a": b"x"}, "m.a", "bytes"),
        ([date(2026, 1, 2)], "m[0]", "datetime.date"),
        (datetime(2026, 1, 2, tzinfo=UTC), "m", "datetime.datetime"),
        ({"a": "half \ud800"}, "m.a", "text that is not valid Unicode"),
        ({"\udfff": 1}, "m", "text that is not valid Unicode"),
        ({"a": {1: 2}}, "m.a", "a key of type int"),
        ({"n": 10**4299}, "m.n", "an integer of more than 4299 digits"),
        ({"n": -(10**4299)}, "m.n", "an integer of more than 4299 digits"),
        ({1, 2}, "m", "set"),
        (object(), "m", "object"),
    ],
)
def test_what_could_not_be_read_again_is_refused_by_the_place_where_it_stands(
    value: object, place: str, what: str
) -> None:
    with pytest.raises(NotStorable) as refused:
        storable(value, "m")
    assert (refused.value.place, refused.value.what) == (place, what)
    assert str(refused.value) == f"at {place}: {what} has no JSON form"
    assert isinstance(refused.value, SteptrailError)


def test_a_hundred_levels_are_stored_and_one_more_is_refused() -> None:
    assert storable(deep(100)) == deep(100)
    with pytest.raises(NotStorable, match="more than 100 levels"):
        storable(deep(101))


def test_what_contains_itself_is_refused_in_an_error_of_bounded_length() -> None:
    cycle: dict[str, object] = {}
    cycle["k" * 10_000] = [cycle]
    with pytest.raises(NotStorable, match="more than 100 levels") as refused:
        storable(cycle)
    assert len(str(refused.value)) < 300


def test_what_is_stored_shares_nothing_with_what_was_given() -> None:
    given_value: dict[str, Any] = {"a": [1]}
    kept = storable(given_value)
    given_value["a"].append(2)
    assert kept == {"a": [1]}


def test_what_json_has_another_word_for_is_taken() -> None:
    assert storable((1, OrderedDict({Colour.RED: Colour.RED}))) == [1, {"red": "red"}]
    assert type(storable(Colour.RED)) is str


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(min_value=1 - 10**4299, max_value=10**4299 - 1)
        | st.sampled_from([1 - 10**4299, 10**4299 - 1])
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_what_is_taken_is_read_again_as_it_was(value: JsonValue) -> None:
    assert storable(value) == value
    assert msgspec.json.decode(msgspec.json.encode(value)) == value
