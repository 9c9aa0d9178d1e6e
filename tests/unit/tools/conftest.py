"""One call of one tool, as the runner makes it."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.infrastructure.tools import Tool
from steptrail.infrastructure.tools.execution import execute
from steptrail.runtime.agent.tool_port import ToolContext, ToolOutcome


def capture(error: BaseException) -> ErrorInfo:
    kind = type(error)
    return ErrorInfo(type=ErrorType.UNKNOWN, error_class=f"{kind.__module__}:{kind.__qualname__}", message=str(error))


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(
        effect_id="eff-1",
        session_id="a-1",
        execution_id="x-1",
        step=2,
        call_id="c-1",
        attempt=1,
        deadline_seconds=30.0,
    )


@pytest.fixture
def call(context: ToolContext) -> Callable[..., ToolOutcome]:
    def run(
        tool: Tool,
        arguments: Mapping[str, JsonValue] | None = None,
        raw: str | None = None,
        *,
        timeout: float | None = 30.0,
    ) -> ToolOutcome:
        return asyncio.run(execute(tool, arguments, raw, context, timeout=timeout, capture=capture))

    return run
