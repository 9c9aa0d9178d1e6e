"""Tools of somebody's own that return what is no outcome, or one that could not be read back: each is a failed call."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.errors import ErrorInfo, ErrorType
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ToolEffect, ToolFailed, ToolSpec, ToolSucceeded, ToolTimedOut
from steptrail.workflow import Workflow

UNTYPED: Any = ToolFailed
"""Nobody's type checker looks at what these tools return."""
LATE: Any = ToolTimedOut
DONE: Any = ToolSucceeded
ERROR: Any = ErrorInfo


@dataclass
class Scales:
    """A tool that returns whatever it is to."""

    answer: Callable[[], object]
    spec: ToolSpec = field(default_factory=lambda: ToolSpec(name="weigh", effect=ToolEffect.READ))

    async def run(self, *given: object, **by_name: object) -> Any:
        del given, by_name
        return self.answer()


def error(**other: object) -> Any:
    return ERROR(**{"type": ErrorType.TOOL, "error_class": "scales:Broken", "message": "broken", **other})


no_outcome = pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda: None, "the tool 'weigh' returned NoneType and not an outcome"),
        (lambda: ToolSucceeded, "the tool 'weigh' returned StructMeta and not an outcome"),
        (lambda: UNTYPED("no scales"), "error: Expected `ErrorInfo`, got `str`"),
        (lambda: UNTYPED(ValueError("no scales")), "error: Expected `ErrorInfo`, got `ValueError`"),
        (lambda: UNTYPED(error(), may_retry="yes"), "may_retry: Expected `bool`, got `str`"),
        (lambda: UNTYPED(error(type="heavy")), "Invalid enum value 'heavy'"),
        (lambda: UNTYPED(error(message="\ud800")), "surrogates not allowed"),
        (lambda: LATE("too late", cancelled=True), "error: Expected `ErrorInfo`, got `str`"),
        (lambda: DONE("7", most_shown=-1), "most_shown: Expected `int` >= 0"),
        (lambda: DONE("7", usage="much"), "usage: Expected `BilledUsage`, got `str`"),
    ],
)


@no_outcome
async def test_given_a_tool_that_returns_no_outcome_then_the_call_has_failed_and_the_session_can_be_read(
    answer: Callable[[], object], says: str
) -> None:
    agent = AgentBuilder("clerk").with_model(ScriptedModel([call("weigh")])).with_tools(Scales(answer)).build()
    async with asyncio.timeout(60), Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(agent, "Weigh it.", session="s")).status == "failed"
        (weighed,) = (await trail.session("s").state()).steps[0].tool_executions
    assert (weighed.status, weighed.error is not None and says in weighed.error.message) == ("failed", True)


@no_outcome
async def test_given_a_node_whose_tool_returns_no_outcome_then_it_has_failed_and_the_run_has_ended(
    answer: Callable[[], object], says: str
) -> None:
    flow = Workflow("w").tool("n", Scales(answer), retry=1).build()
    async with asyncio.timeout(60), Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow, session="s")
        assert (result.status, result.error is not None and says in result.error.message) == ("failed", True)
        assert (await trail.flow("s").state()).status == "failed"


async def test_given_an_error_that_somebody_wrote_down_then_it_is_taken_with_its_type_in_words() -> None:
    scales = Scales(lambda: UNTYPED(error(type="rate_limit")))
    agent = AgentBuilder("clerk").with_model(ScriptedModel([call("weigh")])).with_tools(scales).build()
    async with asyncio.timeout(60), Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "Weigh it.", session="s")
        (weighed,) = result.state.steps[0].tool_executions
    assert weighed.error is not None
    assert weighed.error.type is ErrorType.RATE_LIMIT
