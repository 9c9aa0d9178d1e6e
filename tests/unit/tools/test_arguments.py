"""A model's arguments, and what it is told about wrong ones."""

from collections.abc import Callable
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from steptrail.domain.failures import ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import failure_text
from steptrail.runtime.agent.tool_port import ToolContext, ToolFailed, ToolOutcome, ToolSucceeded
from steptrail.tools import tool

Call = Callable[..., ToolOutcome]


@tool
def search(query: str, limit: int = 5, tags: list[str] = [], *, schema: str) -> dict[str, Any]:  # noqa: B006
    return {"query": query, "limit": limit, "tags": tags, "schema": schema}


def refusal(outcome: ToolOutcome) -> str:
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.type is ErrorType.VALIDATION
    assert "http" not in outcome.error.message
    return outcome.error.message


def test_given_arguments_are_passed_and_the_others_keep_their_defaults(call: Call) -> None:
    outcome = call(search, {"query": "x", "schema": "s"})
    assert isinstance(outcome, ToolSucceeded)
    assert outcome.result == {"query": "x", "limit": 5, "tags": [], "schema": "s"}


def test_a_default_in_a_field_is_passed(call: Call) -> None:
    @tool
    def double(number: Annotated[int, Field(default=4)]) -> int:
        return 2 * number

    assert call(double, {}) == ToolSucceeded(8)


def test_numbers_as_text_are_numbers(call: Call) -> None:
    outcome = call(search, {"query": "x", "schema": "s", "limit": "3"})
    assert isinstance(outcome, ToolSucceeded)
    assert outcome.result == {"query": "x", "limit": 3, "tags": [], "schema": "s"}


def test_types_that_are_strict_about_python_values_take_their_json(call: Call) -> None:
    class Booking(BaseModel):
        model_config = ConfigDict(strict=True)
        day: date

    @tool
    def book(booking: Booking) -> int:
        return booking.day.year

    assert call(book, {"booking": {"day": "2026-02-03"}}) == ToolSucceeded(2026)


def test_missing_parameters_are_named_in_the_order_of_the_function(call: Call) -> None:
    text = "Missing required parameters: query, schema"
    outcome = call(search, {"limit": "many"})
    assert refusal(outcome) == text
    assert isinstance(outcome, ToolFailed)
    assert failure_text(outcome.error.message) == f"Error in tool call: {text}"
    assert outcome.error.error_class.endswith(":InvalidArguments")


@pytest.mark.parametrize("raw", [None, "", " \n"])
def test_no_text_at_all_is_no_arguments(call: Call, raw: str | None) -> None:
    assert refusal(call(search, None, raw)) == "Missing required parameters: query, schema"


def test_text_that_is_no_object_is_shown_back(call: Call) -> None:
    assert refusal(call(search, None, '{"query": ')) == 'The arguments are not a JSON object: {"query": '


def test_every_wrong_argument_is_explained_on_one_line(call: Call) -> None:
    message = refusal(call(search, {"query": 1, "schema": "s", "tags": ["a", None], "page": 2}))
    assert message == (
        "Invalid arguments: query: Input should be a valid string (got 1); "
        "tags.1: Input should be a valid string (got null); page: there is no such parameter"
    )


def test_what_is_missing_inside_an_argument_is_no_missing_parameter(call: Call) -> None:
    class Place(BaseModel):
        city: str

    @tool
    def travel(place: Place) -> str:
        return place.city

    assert refusal(call(travel, {"place": {}})) == "Invalid arguments: place.city: Field required (got {})"


def test_what_is_shown_is_short(call: Call) -> None:
    many: list[JsonValue] = [None] * 30
    assert refusal(call(search, {"query": "x", "schema": "s", "tags": many})).endswith("; and 20 more")
    assert len(refusal(call(search, {"query": ["y" * 5000], "schema": "s"}))) < 300
    assert len(refusal(call(search, None, "z" * 5000))) < 300


def test_text_that_is_not_unicode_is_refused(call: Call) -> None:
    assert refusal(call(search, {"query": "\ud800", "schema": "s"})).startswith("The arguments are not JSON: ")
    refusal(call(search, None, "\ud800")).encode()


def test_a_tool_without_parameters_refuses_any(call: Call) -> None:
    @tool
    def now() -> int:
        return 1

    assert call(now, None, None) == ToolSucceeded(1)
    assert refusal(call(now, {"zone": "UTC"})) == "Invalid arguments: zone: there is no such parameter"


def test_a_validator_that_breaks_is_a_failure_of_the_tool(call: Call) -> None:
    def broken(value: int) -> int:
        raise KeyError(value)

    @tool
    def count(number: Annotated[int, AfterValidator(broken)]) -> int:
        return number

    outcome = call(count, {"number": 1})
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.error_class == "builtins:KeyError"


def test_what_a_validator_says_is_told_without_credentials(call: Call) -> None:
    def looked_up(value: int) -> int:
        raise ValueError("postgresql://desk:a-password@shop refused")

    @tool
    def count(number: Annotated[int, AfterValidator(looked_up)]) -> int:
        return number

    told = "Invalid arguments: number: Value error, postgresql://…@shop refused (got 1)"
    assert refusal(call(count, {"number": 1})) == told


def test_the_context_is_passed_to_the_parameter_that_asks_for_it(call: Call, context: ToolContext) -> None:
    seen: list[ToolContext | None] = []

    @tool
    def note(text: str, *, about: ToolContext | None = None) -> None:
        seen.append(about)

    call(note, {"text": "x"})
    assert seen == [context]


def test_the_context_cannot_be_an_argument(call: Call) -> None:
    @tool
    def note(about: ToolContext) -> None: ...

    assert refusal(call(note, {"about": {}})) == "Invalid arguments: about: there is no such parameter"
