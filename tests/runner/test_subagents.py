"""Agents as tools of agents: each call has a session of its own, and only its answer comes back."""

import asyncio

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, ToolContext, ToolEffect, tool
from steptrail.domain.agent.events import (
    ExecutionStarted,
    SessionStarted,
    ToolExecutionCompleted,
    ToolExecutionFailed,
)
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.failures import ErrorInfo, ErrorType
from steptrail.domain.inference import ModelRequest
from steptrail.domain.messages import TextPart, ToolResultPart
from steptrail.domain.shared.parent import ParentRef, session_for_call
from steptrail.domain.usage import BilledUsage
from steptrail.runtime.agent.tool_port import ToolFailed
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.tools import SpawnSubagent, Subagent, SubagentTool
from tests.runner.families import BILL_OF_ONE, FIRST, PATIENCE, asks, boss, look, named, spawns, times, tree_of
from tests.runner.kit import Crash, again_on, crash_at, run, trail_of


async def test_only_the_answer_comes_back_and_the_child_has_a_session_of_its_own() -> None:
    async with trail_of() as trail:
        child = named("reader", call("look"), "It says 42.").with_tools(look).build()
        model = ScriptedModel([asks("reader", "What does it say?"), "Done."])
        parent = AgentBuilder("boss").with_model(model).with_tools(SubagentTool(child)).build()
        result = await trail.run(parent, "go", session="s")
        parts = [part for message in model.requests[1].messages for part in message.parts]
        shown = [part.text for part in parts if isinstance(part, TextPart | ToolResultPart)]
        assert shown == ["go", "[Subagent: reader] It says 42."]
        opened = (await trail.session(FIRST).events())[0].event
        above = ParentRef(kind="agent", session="s", execution="s:1", effect="s:1:1:0", call="call-1")
        assert isinstance(opened, SessionStarted)
        assert (opened.name, opened.parent) == ("reader", above)
        assert above.root_stream == "agent:s"
        assert (result.output, [row.session_id for row in await trail.runs()]) == ("Done.", [FIRST, "s"])


async def test_one_tool_spawns_any_of_several_agents_by_name() -> None:
    tool = SpawnSubagent({"a": named("x", "I am a.").build(), "b": Subagent(agent=named("y", "I am b.").build())})
    ran = await run(boss([tool], spawns(("b", "who?"), ("a", "who?")), "Done.").build())
    assert ran.shown == ["[Subagent: b] I am b.", "[Subagent: a] I am a."]
    assert tool.spec.parameters["required"] == ["subagent", "prompt"]


async def test_an_agent_that_is_not_there_is_a_failed_call_that_names_the_ones_that_are() -> None:
    tool = SpawnSubagent({"a": named("x", "I am a.").build()})
    ran = await run(boss([tool], spawns(("z", "who?")), "Done.").build())
    assert ran.shown == ["Error in tool call: there is no subagent 'z'; the subagents are: a"]


@pytest.mark.parametrize("wanted", [{"prompt": "who?"}, {"subagent": "a"}, {}])
async def test_both_parameters_are_required(wanted: dict[str, str]) -> None:
    tool = SpawnSubagent({"a": named("x", "I am a.").build()})
    ran = await run(boss([tool], call("spawn_subagent", **wanted), "Done.").build())
    assert ran.shown[0].startswith("Error in tool call: Missing required parameters: ")
    assert ran.one(ToolExecutionFailed).error.type is ErrorType.VALIDATION


async def test_a_long_answer_is_cut_for_the_model_and_kept_in_the_log() -> None:
    ran = await run(boss([SubagentTool(named("talker", "x" * 9000).build())], asks("talker", "talk"), "Done.").build())
    ended = ran.one(ToolExecutionCompleted)
    assert ended.shown_characters == 8000
    assert ended.result == f"[Subagent: talker] {'x' * 9000}"
    assert ran.shown == [f"[Subagent: talker] {'x' * 7981}…[cut: 1019 characters more]"]


async def test_a_child_that_fails_is_a_failed_call_and_never_an_answer() -> None:
    child = named("reader", RuntimeError("no line")).build()
    ran = await run(boss([SubagentTool(child)], asks("reader", "go"), "Done.").build())
    (text,) = ran.shown
    assert text.startswith("Error in tool call: subagent 'reader' came to no answer (error")
    assert FIRST in text
    assert ran.one(ToolExecutionFailed).usage == BilledUsage()


@pytest.mark.parametrize(
    ("child", "why"),
    [
        (named("reader", call("look"), "late").with_tools(look).with_max_steps(1), "steps_limit"),
        (named("reader", call("look"), "late").with_tools(look).with_max_tokens(15), "token_limit"),
    ],
)
async def test_a_child_that_a_limit_stopped_has_no_answer(child: AgentBuilder, why: str) -> None:
    ran = await run(boss([SubagentTool(child.build())], asks("reader", "go"), "Done.").build())
    assert f"came to no answer ({why}: " in ran.shown[0]
    assert ran.one(ToolExecutionFailed).usage == BILL_OF_ONE


async def test_a_failed_child_stops_the_parent_where_errors_do() -> None:
    child = named("reader", RuntimeError("no line")).build()
    parent = AgentBuilder("boss").with_model(ScriptedModel([asks("reader", "go")])).with_tools(SubagentTool(child))
    assert (await run(parent.build())).ending == ("failed", "error")


async def test_a_child_has_the_tools_that_are_allowed_and_not_denied() -> None:
    @tool(effect=ToolEffect.READ)
    def write() -> str:
        """Write."""
        return "written"

    @tool(effect=ToolEffect.READ)
    def send() -> str:
        """Send."""
        return "sent"

    seen: list[list[str]] = []

    def answer(request: ModelRequest) -> str:
        seen.append([spec.name for spec in request.tools])
        return "ok"

    agent = AgentBuilder("clerk").with_model(ScriptedModel([answer])).with_tools(look, write, send).build()
    tools = [
        SubagentTool(Subagent(agent=agent), name="all"),
        SubagentTool(Subagent(agent=agent, allowed_tools=["look", "send"], denied_tools=["send"]), name="one"),
        SubagentTool(Subagent(agent=agent, denied_tools=["look"]), name="two"),
    ]
    script: list[Reply] = [asks("all", "go"), asks("one", "go"), asks("two", "go"), "Done."]
    await run(boss(tools, *script).build())
    assert seen == [["look", "write", "send"], ["look"], ["write", "send"]]


@pytest.mark.parametrize(("allowed", "denied"), [(["look", "lok"], []), (None, ["lok"])])
async def test_a_list_that_names_a_tool_that_is_not_there_is_refused(
    allowed: list[str] | None, denied: list[str]
) -> None:
    agent = named("reader", "ok").with_tools(look).build()
    with pytest.raises(ConfigurationError, match="no tool 'lok' to allow or deny"):
        Subagent(agent=agent, allowed_tools=allowed, denied_tools=denied)
    later = Subagent(agent=lambda: agent, allowed_tools=allowed, denied_tools=denied)
    ran = await run(boss([SubagentTool(later, name="reader")], asks("reader", "go"), "Done.").build())
    assert ran.shown == ["Error in tool call: subagent 'reader' has no tool 'lok' to allow or deny"]


# How deep


async def test_an_agent_that_spawns_itself_is_refused_below_the_third_level() -> None:
    made: list[Agent] = []
    spawn = SpawnSubagent({"again": Subagent(agent=lambda: made[0])})

    def answer(request: ModelRequest) -> str:
        (part,) = request.messages[-1].parts
        return part.text if isinstance(part, ToolResultPart) else ""

    script: list[Reply] = [spawns(("again", "deeper")), answer]
    made.append(
        AgentBuilder("again").with_model(ScriptedModel(script)).with_tools(spawn)
        .with_error_policy(ErrorPolicy.ignore_tool_errors()).build()
    )  # fmt: skip
    async with trail_of() as trail:
        result = await trail.run(made[0], "go", session="s")
        assert result.output == "[Subagent: again] " * 3 + (
            "Error in tool call: subagents may be nested 3 deep, and subagent 'again' would be 4 deep: "
            "do the work yourself"
        )
        rows = [each.run for _, each in (await trail.tree("s")).walk()]
        assert [row.parent and (row.parent.depth, row.parent.root_stream) for row in rows] == [
            None,
            (1, "agent:s"),
            (2, "agent:s"),
            (3, "agent:s"),
        ]


@pytest.mark.parametrize("depth", [0, -1])
def test_a_depth_that_allows_no_subagent_is_refused(depth: int) -> None:
    with pytest.raises(ConfigurationError, match=r"`max_depth` of subagent .x. is a number from 1"):
        SubagentTool(named("x", "ok").build(), max_depth=depth)


def test_a_tool_without_agents_or_without_a_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no subagents to spawn"):
        SpawnSubagent({})
    with pytest.raises(ConfigurationError, match="needs a name"):
        SubagentTool(Subagent(agent=lambda: named("x", "ok").build()))
    with pytest.raises(ConfigurationError, match="makes no tool: name"):
        SubagentTool(named("x", "ok").build(), name="no good name")


async def test_a_call_outside_of_a_run_has_no_session_and_fails() -> None:
    context = ToolContext(effect_id="e", session_id="s", execution_id="s:1", step=1, call_id="c", attempt=1)
    tool = SubagentTool(named("x", "ok").build())
    outcome = await tool.run({"prompt": "go"}, None, context, timeout=None, capture=never)
    assert isinstance(outcome, ToolFailed)
    assert "outside of a run" in outcome.error.message


def never(error: BaseException) -> ErrorInfo:
    raise error


# The bill


async def test_the_parent_is_billed_for_the_tree_and_knows_its_own_part() -> None:
    inner = named("inner", call("look"), "found").with_tools(look).build()
    outer = boss([SubagentTool(inner)], asks("inner", "go"), "Outer done.").build()
    async with trail_of() as trail:
        top = boss([SubagentTool(outer, name="outer")], asks("outer", "go"), asks("outer", "go"), "Done.").build()
        result = await trail.run(top, "go", session="s")
        assert (result.usage, result.state.own_usage) == (times(11), times(3))
        assert result.state.total_usage == times(11)
        tree = await tree_of(trail)
        bills = [(depth, each.run.name, each.own_usage, each.usage) for depth, each in tree.walk()]
        below = [(1, "boss", times(2), times(4)), (2, "inner", times(2), times(2))]
        assert bills == [(0, "boss", times(3), times(11)), *below, *below]


async def test_the_token_limit_of_the_parent_counts_the_whole_tree() -> None:
    child = named("reader", call("look"), "found").with_tools(look).build()
    ran = await run(boss([SubagentTool(child)], asks("reader", "go"), "Never said.").with_max_tokens(40).build())
    assert ran.ending == ("completed", "token_limit")
    assert ran.result.usage == times(3)
    assert "Token limit reached: 45/40" in ran.why.verdict


async def test_a_failed_child_is_billed_too() -> None:
    child = named("reader", call("look"), RuntimeError("no line")).with_tools(look).build()
    ran = await run(boss([SubagentTool(child)], asks("reader", "go"), "Done.").build())
    assert (ran.result.usage, ran.result.state.own_usage) == (times(3), times(2))


# Several at once


async def test_several_children_of_one_reply_run_at_once_each_in_a_session_of_its_own() -> None:
    here: list[str] = []

    @tool(effect=ToolEffect.READ)
    async def meet(context: ToolContext) -> str:
        """Wait for the others."""
        here.append(context.session_id)
        async with asyncio.timeout(PATIENCE):
            while len(here) < 4:
                await asyncio.sleep(0)
        return "met"

    child = named("guest", call("meet"), "met").with_tools(meet).build()
    async with trail_of() as trail:
        parent = boss([SubagentTool(child)], asks("guest", "1", "2", "3", "4"), "Done.").build()
        result = await trail.run(parent, "go", session="s")
        assert (result.output, result.usage) == ("Done.", times(10))
        assert sorted(here) == sorted(session_for_call(f"s:1:1:{i}") for i in range(4))
        prompts = [(await trail.session(each).state()).messages[0].text for each in sorted(here)]
        assert sorted(prompts) == ["1", "2", "3", "4"]


# Crashes


@pytest.mark.parametrize("crash", range(1, 11))
async def test_a_crash_after_any_commit_of_the_tree_repeats_no_child_and_bills_it_once(crash: int) -> None:
    ran: list[str] = []

    @tool(effect=ToolEffect.IDEMPOTENT)
    def work(context: ToolContext) -> str:
        """Work."""
        ran.append(context.effect_id)
        return "worked"

    child = named("worker", call("work"), call("work"), "all worked").with_tools(work).build()
    parent = boss([SubagentTool(child)], asks("worker", "go"), "Done.").build()
    async with trail_of(reach=crash_at("after-append", crash)) as trail:
        with pytest.raises(Crash):
            await trail.run(parent, "go", session="s")
        other = again_on(trail)
        result = await other.run(parent, "go", session="s")
        assert (result.output, result.usage, result.state.own_usage) == ("Done.", times(5), times(2))
        assert result.state.steps[0].tool_executions[0].text == "[Subagent: worker] all worked"
        assert [row.session_id for row in await other.runs()] == [FIRST, "s"]
        events = [record.event for record in await other.session(FIRST).events()]
        assert [type(event) for event in events].count(ExecutionStarted) == 1
        tree = await tree_of(other)
        assert (tree.usage, tree.own_usage) == (times(5), times(2))


@pytest.mark.parametrize("crash", range(3, 8))
async def test_a_child_that_has_another_name_after_a_crash_goes_on_with_the_call_that_it_is_for(crash: int) -> None:
    def parent(name: str) -> Agent:
        child = named(name, call("look"), "looked").with_tools(look).build()
        return boss([SpawnSubagent({"a": child})], spawns(("a", "go")), "Done.").build()

    async with trail_of(reach=crash_at("after-append", crash)) as trail:
        with pytest.raises(Crash):
            await trail.run(parent("old"), "go", session="s")
        result = await again_on(trail).run(parent("new"), "go", session="s")
        assert (result.output, result.usage) == ("Done.", times(4))
        assert result.state.steps[0].tool_executions[0].text == "[Subagent: a] looked"


async def test_processes_that_keep_dying_while_a_child_gets_on_do_not_stop_the_parent() -> None:
    child = named("worker", *[call("look")] * 6, "looked").with_tools(look).build()
    parent = boss([SubagentTool(child)], asks("worker", "go"), "Done.").build()
    async with trail_of() as trail:
        for _ in range(6):
            dying = again_on(trail, reach=crash_at("after-inference", 1))
            with pytest.raises(Crash):
                await dying.run(parent, "go", session="s")
            # The step that the crash cut off is made, and the next process dies in the one after it.
            dying = again_on(trail, reach=crash_at("after-inference", 2))
            with pytest.raises(Crash):
                await dying.run(parent, "go", session="s")
        result = await again_on(trail).run(parent, "go", session="s")
        assert (result.output, result.usage) == ("Done.", times(9))


async def test_a_child_that_keeps_killing_its_process_is_stopped_by_its_own_guard() -> None:
    child = named("worker", call("look"), "looked").with_tools(look).build()
    parent = boss([SubagentTool(child)], asks("worker", "go"), "Done.").build()
    async with trail_of() as trail:
        for _ in range(4):
            with pytest.raises(Crash):
                await again_on(trail, reach=crash_at("before-tool", 2)).run(parent, "go", session="s")
        result = await again_on(trail).run(parent, "go", session="s")
    assert result.output == "Done."
    error = result.state.steps[0].tool_executions[0].error
    assert error is not None
    assert "came to no answer (guard: Crash loop" in error.message


# A person, a pause, a stop
