"""The code of a tree that was drawn, and the world outside in which it acts."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from steptrail import Agent, AgentBuilder, Compaction, Message, ToolContext, external_tool, tool
from steptrail.domain.agent.state import AgentState
from steptrail.domain.tools import ApprovalRule
from steptrail.messages import File
from steptrail.testing import Reply, ScriptedModel, calls, say
from steptrail.tools import SubagentTool, ToolReply
from steptrail.workflow import Budget, BuiltWorkflow, FailureClass, FlowTool, RetryPolicy, Workflow
from tests.properties.drawing import PRICES
from tests.properties.tree_drawing import Act, AFlow, AnAgent, Ask, Elsewhere, Part
from tests.runner.kit import HandClock

Code = Agent[Any] | BuiltWorkflow
SHARED = File.from_bytes(b"what all have in common", name="all.txt")
"""A file that each session may name."""


@dataclass
class Outside:
    """The outside world: counts what was begun and done there by the ids of effects, and takes its time.

    `answered` are the external calls whose answers were taken. `code` is what was made to act in it, by name.
    """

    clock: HandClock
    begun: Counter[str] = field(default_factory=Counter[str])
    done: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])
    answered: Counter[str] = field(default_factory=Counter[str])
    moment: Callable[[], Awaitable[None]] | None = None
    code: dict[str, Code] = field(default_factory=dict[str, Code])

    async def do(self, act: Act, effect: str) -> str | ToolReply:
        self.begun[effect] += 1
        await self.pass_a_moment()
        self.clock.advance(act.seconds)
        if act.fails < 0 or self.failed[effect] < act.fails:
            self.failed[effect] += 1
            raise RuntimeError("no")
        self.done[effect] += 1
        return ToolReply("done", File.from_bytes(effect.encode()), SHARED) if act.makes_a_file else "done"

    async def sum_up(self, messages: Sequence[Message]) -> str:
        """Write the summary of a conversation, at its moment."""
        await self.pass_a_moment()
        return f"{len(messages)}"

    async def instruct(self, state: AgentState) -> str:
        """Write instructions for a step, at its moment."""
        await self.pass_a_moment()
        return f"This is step {state.step_count + 1}."

    async def pass_a_moment(self) -> None:
        """Let happen what comes in between outside."""
        if self.moment is not None:
            await self.moment()


def made(part: AnAgent | AFlow, world: Outside, name: str = "r") -> Code:
    """Return the code of a tree."""
    world.code[name] = _agent(part, world, name) if isinstance(part, AnAgent) else _flow(part, world, name)
    return world.code[name]


def _agent(drawn: AnAgent, world: Outside, name: str) -> Agent[Any]:
    tools = [_tool(part, world, f"{name}{at}") for at, part in enumerate(drawn.parts)]
    script: list[Reply] = [
        calls(*[(tools[at].spec.name, {"prompt": "go"} if isinstance(drawn.parts[at], AnAgent) else {}) for at in turn])
        if turn
        else ConnectionError("no line")
        for turn in drawn.turns
    ]
    answers = [say(f"{name} says so")] * 50
    builder = AgentBuilder(name).with_model(ScriptedModel([*script, *answers]))
    if drawn.after is not None:
        told = [answers[0] if isinstance(reply, Exception) else reply for reply in script]
        builder.with_fallback(ScriptedModel([*told, *answers], name="scripted-2"), after=drawn.after)
    builder.with_error_policy(drawn.policy).with_limits(drawn.limits).with_prices(PRICES)
    if drawn.compacts:
        builder.with_compaction(Compaction(window=10, keep_steps=1, summarizer=world.sum_up, clear_results_above=0))
    if drawn.instructed:
        builder.with_instructions(world.instruct, every="step", at="tail")
    return builder.with_tools(*tools).build() if tools else builder.build()


def _tool(part: Part, world: Outside, name: str) -> Any:
    if isinstance(part, AnAgent | AFlow):
        kind: Any = SubagentTool if isinstance(part, AnAgent) else FlowTool
        rule = False if part.below.approval is None else ApprovalRule(expires=part.below.approval)
        return kind(made(part, world, name), timeout=part.below.timeout, approval=rule)
    if isinstance(part, Elsewhere):
        return external_tool(name, "Know.", {"type": "object", "properties": {}}, expires=part.expires)
    assert isinstance(part, Act)

    @tool(
        name=name,
        effect=part.effect,
        timeout=part.timeout,
        on_unknown=part.on_unknown,
        approval=False if part.approval is None else ApprovalRule(expires=part.approval),
    )
    async def act(context: ToolContext) -> str | ToolReply:
        """Act."""
        return await world.do(part, context.effect_id)

    return act


def _flow(drawn: AFlow, world: Outside, name: str) -> BuiltWorkflow:
    written = Workflow(name, options=drawn.options)
    for at, part in enumerate(drawn.parts):
        node = f"n{at}"
        more: dict[str, Any] = {"output": node, **({"on_error": "continue"} if drawn.on_error else {})}
        if isinstance(part, Ask):
            written.human(node, prompt="Yes?", expires=part.expires, **more)
            continue
        if isinstance(part, Act):
            written.tool(node, _tool(part, world, f"{name}{at}"), retry=_tries(3), **more)
            continue
        assert not isinstance(part, Elsewhere)
        more |= {"timeout": part.below.timeout, "retry": _tries(part.below.tries, FailureClass.CHILD)}
        if part.below.tokens is not None:
            more["budget"] = Budget(max_total_tokens=part.below.tokens)
        code = made(part, world, f"{name}{at}")
        if isinstance(code, BuiltWorkflow):
            written.flow(node, code, **more)
        else:
            written.agent(node, code, prompt="go", **more)
    if drawn.in_a_row and len(drawn.parts) > 1:
        written.chain(*[f"n{at}" for at in range(len(drawn.parts))])
    return written.build()


def _tries(most: int, *of: FailureClass) -> RetryPolicy:
    """Return a policy under which a crash costs no try."""
    return RetryPolicy(max_attempts=most, retry_on=of or None, count_interrupted=False)
