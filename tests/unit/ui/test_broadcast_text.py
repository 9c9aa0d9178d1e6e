"""Arguments, results and instants as front ends are shown them."""

import pytest

from steptrail.domain.json_value import JsonValue
from steptrail.projections.broadcast_text import args_summary, cut_args, result_summary, timestamp_text
from steptrail.testing.scenario import START


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        ({}, ""),
        ({"query": "dbplus", "types": ["program"]}, """query: 'dbplus', types: ["program"]"""),
        ({"a": 1, "b": None, "c": True, "d": "left out"}, "a: 1, b: null, c: true"),
        ({"filter": {"from": 1, "to": [2, 3]}}, 'filter: {"from":1,"to":[2,3]}'),
        ({"name": "Zoë"}, "name: 'Zoë'"),
        ({"text": "x" * 28}, f"text: '{'x' * 28}'"),
        ({"text": "x" * 29}, f"text: '{'x' * 26}..."),
        ({"rows": [1111111111, 2222222222, 3333333333]}, "rows: [1111111111,2222222222,3333..."),
        ({"text": "é" * 40}, f"text: '{'é' * 26}..."),
    ],
)
def test_a_summary_holds_three_arguments_and_thirty_characters_of_each(
    arguments: dict[str, JsonValue], summary: str
) -> None:
    assert args_summary(arguments) == summary


def test_texts_among_the_arguments_are_cut_and_what_lies_deeper_is_not() -> None:
    arguments: dict[str, JsonValue] = {"a": "12345", "b": "1234", "c": ["12345"], "d": 12345, "e": None}
    assert cut_args(arguments, 4) == {**arguments, "a": "1234..."}


@pytest.mark.parametrize(
    ("result", "summary"),
    [
        (None, None),
        ("", ""),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 97 + "..."),
        ({"rows": [1, 2]}, '{"rows":[1,2]}'),
        (False, "false"),
    ],
)
def test_a_result_is_summed_up_in_a_hundred_characters(result: JsonValue, summary: str | None) -> None:
    assert result_summary(result) == summary


def test_an_instant_is_in_utc_with_milliseconds_that_are_cut_and_not_rounded() -> None:
    assert timestamp_text(START) == "2026-01-01T00:00:00.000Z"
    assert timestamp_text(START - 1) == "2025-12-31T23:59:59.999Z"
    assert timestamp_text(START + 1_999) == "2026-01-01T00:00:00.001Z"
