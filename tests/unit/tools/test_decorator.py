"""`@tool` over functions and methods."""

import dataclasses
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from steptrail import AgentBuilder
from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.tools import decorator
from steptrail.runtime.agent.tool_port import ToolOutcome, ToolSucceeded
from steptrail.tools import OnUnknown, Tool, ToolEffect, ToolSpec, tool
from steptrail.workflow import Workflow


@tool
def search(query: str, limit: int = 5) -> list[str]:
    """Search the catalogue."""
    return [query] * limit


@tool(name="find", description="Find it.", effect=ToolEffect.READ, timeout=5.0, on_unknown=OnUnknown.PARK)
async def find(query: str) -> str:
    """Not shown."""
    return query


class Catalogue:
    def __init__(self, titles: list[str]) -> None:
        self.titles = titles

    @tool
    def has(self, title: str) -> bool:
        """Tell whether the title is there."""
        return title in self.titles

    @staticmethod
    @tool
    def double(number: int) -> int:
        return 2 * number

    def plain(self, index: int) -> str:
        return self.titles[index]


def test_the_bare_decorator_takes_everything_from_the_function() -> None:
    assert isinstance(search, Tool)
    assert search.name == "search"
    assert search.spec == ToolSpec(
        name="search",
        description="Search the catalogue.",
        parameters=search.spec.parameters,
        effect=ToolEffect.UNSAFE,
        takes_context=False,
    )
    assert not search.is_async


def test_the_decorator_with_arguments_says_the_rest() -> None:
    assert find.spec == ToolSpec(
        name="find",
        description="Find it.",
        parameters=find.spec.parameters,
        effect=ToolEffect.READ,
        timeout=5.0,
        on_unknown=OnUnknown.PARK,
        takes_context=False,
    )
    assert find.is_async


def test_a_tool_is_still_its_function() -> None:
    assert search("x", limit=2) == ["x", "x"]
    assert search.__doc__ == "Search the catalogue."
    assert list(inspect.signature(search).parameters) == ["query", "limit"]


def test_a_tool_is_frozen_and_equal_only_to_itself() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        search.spec = find.spec  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    assert len({search, search, find}) == 2


def test_a_method_is_a_tool_of_its_instance(call: Callable[..., ToolOutcome]) -> None:
    catalogue = Catalogue(["Dune"])
    assert list(catalogue.has.spec.parameters) == list(Catalogue.has.spec.parameters)
    assert catalogue.has.spec.parameters["required"] == ["title"]
    assert catalogue.has("Dune") is True
    assert call(catalogue.has, {"title": "Dune"}) == ToolSucceeded(True)
    assert call(Catalogue([]).has, {"title": "Dune"}) == ToolSucceeded(False)


def test_a_method_without_its_instance_is_refused_before_a_model_is_asked() -> None:
    for give in (AgentBuilder("clerk").with_tools, partial(Workflow("desk").tool, "look")):
        with pytest.raises(ConfigurationError, match="tool 'has' is a method without its instance"):
            give(Catalogue.has)


def test_static_and_bound_methods_are_tools(call: Callable[..., ToolOutcome]) -> None:
    assert call(Catalogue.double, {"number": 4}) == ToolSucceeded(8)
    assert call(Catalogue([]).double, {"number": 4}) == ToolSucceeded(8)
    assert call(tool(Catalogue(["Dune"]).plain), {"index": 0}) == ToolSucceeded("Dune")


def test_a_tool_as_an_attribute_of_a_class_is_not_a_method(call: Callable[..., ToolOutcome]) -> None:
    class Box:
        content = search

    assert call(Box().content, {"query": "x", "limit": 1}) == ToolSucceeded(["x"])


def test_a_wrapped_function_keeps_its_signature(call: Callable[..., ToolOutcome]) -> None:
    def twice(function: Callable[[int], int]) -> Callable[[int], int]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> int:
            return 2 * function(*args, **kwargs)

        return wrapper

    @tool
    @twice
    def successor(number: int) -> int:
        return number + 1

    assert call(successor, {"number": 3}) == ToolSucceeded(8)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, "naïve"])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"'search' makes no tool: name"):
        tool(name=name)(search.function)


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_a_timeout_is_a_positive_number(timeout: float) -> None:
    with pytest.raises(ConfigurationError, match=r"'search' makes no tool: timeout"):
        tool(timeout=timeout)(search.function)


def a_generator(n: int) -> Iterator[int]:
    yield n


async def an_async_generator(n: int) -> AsyncIterator[int]:
    yield n


def a_class_method(cls: type) -> None: ...


NO_FUNCTIONS: list[Any] = [
    "search",
    search,
    Catalogue,
    functools.partial(search.function, limit=1),
    a_generator,
    an_async_generator,
    staticmethod(Catalogue.plain),
    classmethod(a_class_method),
]


@pytest.mark.parametrize("thing", NO_FUNCTIONS)
def test_what_is_not_a_plain_function_is_refused(thing: Any) -> None:
    with pytest.raises(ConfigurationError):
        tool(thing)


def test_a_generator_that_a_decorator_reads_to_its_end_is_a_tool(call: Callable[..., ToolOutcome]) -> None:
    def read_to_its_end(function: Callable[[int], Iterator[int]]) -> Callable[[int], list[int]]:
        @functools.wraps(function)
        def whole(n: int) -> list[int]:
            return [*function(n)]

        return whole

    @tool
    @read_to_its_end
    def count(n: int) -> Iterator[int]:
        yield from range(n)

    assert call(count, {"n": 3}) == ToolSucceeded([0, 1, 2])


def test_a_tool_whose_docstring_python_has_taken_away_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(what: str) -> str:
        return what

    tool(look)
    monkeypatch.setattr(decorator, "sys", SimpleNamespace(flags=SimpleNamespace(optimize=2)))
    tool(description="Look it up.")(look)
    with pytest.warns(RuntimeWarning, match=r"look': `python -OO` removes the docstring .* give a `description`"):
        tool(look)
