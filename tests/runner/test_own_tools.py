"""A tool is whatever has a description and can be run: one that was written without our decorator serves as well."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from steptrail import AgentBuilder
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ToolSpec
from steptrail.errors import ConfigurationError
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolOutcome, ToolSucceeded
from steptrail.testing import ScriptedModel, call
from tests.runner.kit import agent_of, run


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


@pytest.mark.parametrize("name", ["", "  ", "\t\n"])
def test_an_agent_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a name"):
        AgentBuilder(name)


async def test_the_name_of_an_agent_is_kept_without_the_space_around_it() -> None:
    assert AgentBuilder(" clerk ").with_model(ScriptedModel(["hello"])).build().name == "clerk"
    assert (await run(agent_of(["done"]).build())).result.state.name == "calc"
