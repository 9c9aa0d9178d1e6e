"""Agents that have agents as tools, and what a test asks of them."""

from collections.abc import Sequence

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.domain.inference import ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.parent import session_for_call
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage
from steptrail.projections import RunTree
from steptrail.testing import Reply, ScriptedModel, calls
from steptrail.tools import SpawnSubagent, SubagentTool

PATIENCE = 60.0
ONE = Usage(input=10, output=5)
"""What each reply of a scripted model is billed."""
BILL_OF_ONE = BilledUsage.of(ONE, [ModelUsage(asked_for="scripted", usage=ONE)])
FIRST = session_for_call("s:1:1:0")
"""The session of the first call of the first step of session `s`."""


def times(number: int) -> Usage:
    return Usage(input=10 * number, output=5 * number)


def named(name: str, *script: Reply) -> AgentBuilder:
    return AgentBuilder(name).with_model(ScriptedModel(script))


def boss(tools: Sequence[SubagentTool | SpawnSubagent], *script: Reply) -> AgentBuilder:
    policy = ErrorPolicy.ignore_tool_errors()
    return AgentBuilder("boss").with_model(ScriptedModel(script)).with_tools(*tools).with_error_policy(policy)


def asks(tool: str, *prompts: str) -> ModelReply:
    wanted: list[tuple[str, dict[str, JsonValue]]] = [(tool, {"prompt": prompt}) for prompt in prompts]
    return calls(*wanted)


def spawns(*named: tuple[str, str]) -> ModelReply:
    wanted: list[tuple[str, dict[str, JsonValue]]] = [
        ("spawn_subagent", {"subagent": name, "prompt": prompt}) for name, prompt in named
    ]
    return calls(*wanted)


async def tree_of(trail: Steptrail) -> RunTree:
    return await trail.tree("s")


# One call, one session


@tool(effect=ToolEffect.READ)
def look() -> str:
    """Look something up."""
    return "42"
