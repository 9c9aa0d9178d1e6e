"""Annotations that are kept as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from steptrail.domain.errors import ConfigurationError
from steptrail.runtime.agent.tool_port import ToolOutcome, ToolSucceeded
from steptrail.tools import ToolContext, tool


class Order(BaseModel):
    number: int


class Desk:
    @tool
    def cancel(self, order: Order, context: ToolContext) -> str:
        return f"{order.number} {context.effect_id}"


def test_names_of_the_module_resolve(call: Callable[..., ToolOutcome]) -> None:
    assert call(Desk().cancel, {"order": {"number": 7}}) == ToolSucceeded("7 eff-1")


def test_names_around_the_decorator_resolve(call: Callable[..., ToolOutcome]) -> None:
    class Local(BaseModel):
        number: int

    class Shop:
        @tool
        def refund(self, order: Local) -> int:
            return order.number

    @tool(name="pay")
    def charge(order: Local) -> int:
        return order.number

    assert call(charge, {"order": {"number": 7}}) == ToolSucceeded(7)
    assert call(Shop().refund, {"order": {"number": 8}}) == ToolSucceeded(8)


def test_a_name_that_is_nowhere_is_refused() -> None:
    def lost(order: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore

    with pytest.raises(ConfigurationError, match=r"parameter 'order' of tool function .*lost.*'Nowhere'"):
        tool(lost)  # pyright: ignore
