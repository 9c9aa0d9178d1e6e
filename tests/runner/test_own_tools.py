"""A tool is whatever has a description and can be run: one that was written without our decorator serves as well."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from steptrail import AgentBuilder, ErrorPolicy
from steptrail.domain.json_value import JsonValue
from steptrail.errors import ConfigurationError, ErrorInfo
from steptrail.testing import ScriptedModel, call
from steptrail.tools import ApprovalRule, Capture, ToolContext, ToolEffect, ToolOutcome, ToolSpec, ToolSucceeded
from tests.runner.kit import HandClock, agent_of, run


@dataclass
class Scales:
    """A tool of somebody's own, with no more than what is asked of one."""

    spec: ToolSpec = field(default_factory=lambda: ToolSpec(name="weigh"))
    seen: list[ToolContext] = field(default_factory=list[ToolContext])

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        del arguments, raw, timeout, capture
        self.seen.append(context)
        return ToolSucceeded("seven pounds")


async def test_a_tool_that_says_nothing_of_its_context_is_given_all_of_it() -> None:
    scales = Scales()
    model = ScriptedModel([call("weigh"), "done"])
    ran = await run(AgentBuilder("x").with_model(model).with_tools(scales).build())
    assert ran.shown == ["seven pounds"]
    (context,) = scales.seen
    assert (context.effect_id, context.step, context.attempt) == ("s:1:1:0", 1, 1)
    assert context.state is not None
    assert context.state.open_step == 1


async def test_a_tool_that_says_that_it_takes_no_context_is_spared_the_state() -> None:
    blind = Scales(spec=ToolSpec(name="weigh", takes_context=False))
    await run(AgentBuilder("x").with_model(ScriptedModel([call("weigh"), "done"])).with_tools(blind).build())
    assert [context.state for context in blind.seen] == [None]


@dataclass
class Slow(Scales):
    """Keeps the time that it is given, as an own tool has to."""

    clock: HandClock = field(default_factory=HandClock)

    async def run(
        self,
        arguments: Mapping[str, JsonValue] | None,
        raw: str | None,
        context: ToolContext,
        *,
        timeout: float | None,
        capture: Capture,
    ) -> ToolOutcome:
        assert timeout is not None
        self.clock.advance(timedelta(seconds=timeout))
        raise TimeoutError


@pytest.mark.parametrize(
    ("effect", "status"), [(ToolEffect.READ, "failed"), (ToolEffect.KEYED, "interrupted")], ids=["read", "keyed"]
)
async def test_a_tool_that_raises_when_its_time_is_up_ends_as_any_tool_does(effect: ToolEffect, status: str) -> None:
    slow = Slow(spec=ToolSpec(name="weigh", effect=effect, timeout=5.0))
    ran = await run(agent_of([call("weigh"), "done"]).with_tools(slow).build(), clock=slow.clock)
    (late,) = ran.result.state.steps[0].tool_executions
    assert late.status == status


UNTYPED: Any = ErrorInfo
"""Nobody's type checker looks at what is given to it."""


class Picky(Scales):
    """Looks at its arguments in a way that is wrong."""

    def __init__(self, answer: object) -> None:
        super().__init__(ToolSpec(name="weigh", approval=ApprovalRule()))
        self._answer = answer

    def check_arguments(self, arguments: Mapping[str, JsonValue] | None, raw: str | None, capture: Capture) -> object:
        del arguments, raw, capture
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (KeyError("scale"), "KeyError: 'scale'"),
        ("no", "TypeError: check_arguments() returned str, not an ErrorInfo"),
        (UNTYPED(type="heavy", error_class="", message=""), "ValidationError: Invalid enum value 'heavy'"),
        (UNTYPED(type="tool", error_class="", message="\ud800"), "UnicodeEncodeError: 'utf-8' codec can't encode"),
    ],
)
async def test_a_tool_whose_look_at_its_arguments_fails_fails_the_call_and_nobody_is_asked(
    answer: object, said: str
) -> None:
    built = agent_of([call("weigh"), "done"]).with_error_policy(ErrorPolicy.retry_all()).with_tools(Picky(answer))
    ran = await run(built.build())
    (failed,) = ran.result.state.steps[0].tool_executions
    assert (ran.result.status, failed.approval) == ("completed", None)
    assert failed.error is not None
    assert said in f"{failed.error.error_class.partition(':')[2]}: {failed.error.message}"


@pytest.mark.parametrize("name", ["", "  ", "\t\n"])
def test_an_agent_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a name"):
        AgentBuilder(name)


async def test_the_name_of_an_agent_is_kept_without_the_space_around_it() -> None:
    assert AgentBuilder(" clerk ").with_model(ScriptedModel(["hello"])).build().name == "clerk"
    assert (await run(agent_of(["done"]).build())).result.state.name == "calc"
