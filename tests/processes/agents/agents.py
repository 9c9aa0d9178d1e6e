"""The agents of the scenarios. Their tools write to the ledger themselves; what varies is in the options."""

import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from pydantic import BaseModel

from steptrail.domain.continuation.limits import Limits
from steptrail.domain.hooks.hook import CallableHook
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.inference import ModelInfo, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.policy.policy import ErrorPolicy
from steptrail.domain.tools import OnUnknown, ToolEffect
from steptrail.infrastructure.models.openai import OpenAIModel
from steptrail.infrastructure.tools import Tool, tool
from steptrail.infrastructure.tools.subagents import SubagentTool
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.agent.builder import AgentBuilder
from steptrail.runtime.agent.output import OutputContext, OutputRejected
from steptrail.runtime.agent.tool_port import ToolContext
from steptrail.runtime.kernel.ports import ModelDriver
from steptrail.testing.scripted_model import Reply, ScriptedModel, call, calls
from tests.processes.agents.site import Site

Options = Mapping[str, JsonValue]


class GatedModel:
    """A driver that stops at a gate before each call: `model-0`, then `model-1`, and so on over all processes."""

    def __init__(self, site: Site, driver: ModelDriver) -> None:
        self._site, self._driver = site, driver

    def describe(self) -> ModelInfo:
        return self._driver.describe()

    async def infer(self, request: ModelRequest) -> ModelReply:
        await self._site.pass_through(f"model-{request.call_index}")
        return await self._driver.infer(request)

    async def close(self) -> None:
        await self._driver.close()


def _builder(model: ModelDriver, *tools: Tool, **limits: object) -> AgentBuilder:
    """Begin an agent whose calls run one after the other, whatever they do."""
    set_to = msgspec.convert({"max_concurrent_tools": 1, **limits}, Limits)
    return AgentBuilder("errands").with_model(model).with_tools(*tools).with_limits(set_to)


def _declared(options: Options) -> tuple[ToolEffect, OnUnknown]:
    return ToolEffect(str(options.get("effect", "unsafe"))), OnUnknown(str(options.get("on_unknown", "tell")))


def _plain(site: Site, name: str, effect: ToolEffect = ToolEffect.READ) -> Tool:
    @tool(name=name, description="Run an errand.", effect=effect)
    def run(context: ToolContext) -> str:
        site.ledger.write(name, context.effect_id)
        site.ledger.write("done", context.effect_id)
        return f"{name} is done"

    return run


def errands(site: Site, options: Options) -> Agent:
    """Two steps of tools of three effect classes, and a hook of every type: it comes by every fault point."""
    script: list[Reply] = [calls(("look", {}), ("book", {}), ("pay", {})), call("look"), "All done."]
    effects = {"look": ToolEffect.READ, "book": ToolEffect.KEYED, "pay": ToolEffect.UNSAFE}
    builder = _builder(ScriptedModel(script), *(_plain(site, name, effect) for name, effect in effects.items()))
    for hook_type in HookType:
        builder.with_hook(hook_type, CallableHook(_mark, name="mark"))
    return builder.build()


def _mark(state: HookState) -> HookState:
    return state.with_metadata(state.hook_type.value, state.current_execution.step_number)


def triple(site: Site, options: Options) -> Agent:
    """Three tools in one step; the first time the second one is running, its process is killed."""
    effect, on_unknown = _declared(options)

    @tool(effect=effect, on_unknown=on_unknown)
    def second(context: ToolContext) -> str:
        """Run the errand that is interrupted."""
        first_time = not site.ledger.counts()["second"]
        site.ledger.write("second", context.effect_id)
        if first_time:
            os.kill(os.getpid(), signal.SIGKILL)
        site.ledger.write("done", context.effect_id)
        return "second is done"

    script: list[Reply] = [calls(("first", {}), ("second", {}), ("third", {})), "All done."]
    return _builder(ScriptedModel(script), _plain(site, "first"), second, _plain(site, "third")).build()


def gated_model(site: Site, options: Options) -> Agent:
    """A model that answers when it is let; its first reply asks for a tool."""
    model = GatedModel(site, ScriptedModel([call("first"), "All done.", "And that too."]))
    return _builder(model, _plain(site, "first"), stop_grace=options.get("stop_grace", 60.0)).build()


def gated_tool(site: Site, options: Options) -> Agent:
    """The first of two tools ends when it is let, on a thread or, with `async`, in the loop."""
    effect, on_unknown = _declared(options)

    @tool(name="slow", effect=effect, on_unknown=on_unknown)
    def slow(context: ToolContext) -> str:
        """Take long."""
        site.ledger.write("slow", context.effect_id)
        site.block_at("tool")
        site.ledger.write("done", context.effect_id)
        return "slow is done"

    @tool(name="slow", effect=effect, on_unknown=on_unknown)
    async def patient(context: ToolContext) -> str:
        """Take long."""
        site.ledger.write("slow", context.effect_id)
        await site.pass_through("tool")
        site.ledger.write("done", context.effect_id)
        return "slow is done"

    script: list[Reply] = [calls(("slow", {}), ("after", {})), "All done."]
    chosen = patient if options.get("async") else slow
    grace = options.get("stop_grace", 60.0)
    return _builder(ScriptedModel(script), chosen, _plain(site, "after"), stop_grace=grace).build()


def deadly(site: Site, options: Options) -> Agent:
    """A reading tool that kills its process every time."""

    @tool(effect=ToolEffect.READ)
    def read(context: ToolContext) -> str:
        """Read something fatal."""
        site.ledger.write("read", context.effect_id)
        os.kill(os.getpid(), signal.SIGKILL)
        return "unreachable"

    return _builder(ScriptedModel([call("read"), "All done."]), read).build()


def over_http(site: Site, options: Options) -> Agent:
    """The real driver against a server, with a tool that can be held at its gate."""

    @tool(effect=ToolEffect.READ)
    async def look(context: ToolContext) -> str:
        """Look something up."""
        site.ledger.write("look", context.effect_id)
        await site.pass_through("tool")
        return "42"

    model = GatedModel(site, OpenAIModel("scripted", base_url=str(options["url"])))
    return _builder(model, look).with_error_policy(ErrorPolicy.retry_all(3)).build()


class BilledModel:
    """A driver whose provider keeps a bill of its own: a line in the ledger for each call that it answered."""

    def __init__(self, site: Site, driver: ModelDriver) -> None:
        self._site, self._driver = site, driver

    def describe(self) -> ModelInfo:
        return self._driver.describe()

    async def infer(self, request: ModelRequest) -> ModelReply:
        reply = await self._driver.infer(request)
        self._site.ledger.write("billed")
        return reply

    async def close(self) -> None:
        await self._driver.close()


def family(site: Site, options: Options) -> Agent:
    """An agent with as many subagents at work as `children` says; each uses its tool, which waits at a gate, twice.

    With `mortal` the first use of the tool kills the process.
    """

    @tool(effect=ToolEffect.KEYED)
    async def work(context: ToolContext) -> str:
        """Work."""
        first_time = not site.ledger.counts()["work"]
        site.ledger.write("work", context.effect_id)
        if options.get("mortal") and first_time:
            os.kill(os.getpid(), signal.SIGKILL)
        await site.pass_through("tool")
        site.ledger.write("done", context.effect_id)
        return "worked"

    worker = _builder(BilledModel(site, ScriptedModel([call("work"), call("work"), "All worked."])), work).build()
    wanted: list[tuple[str, dict[str, JsonValue]]] = [
        ("work_for", {"prompt": f"part {number}"}) for number in range(cast("int", options.get("children", 1)))
    ]
    model = BilledModel(site, ScriptedModel([calls(*wanted), "All done."]))
    builder = AgentBuilder("family").with_model(model).with_tools(SubagentTool(worker, name="work_for"))
    return builder.with_limits(Limits(stop_grace=60.0)).build()


class Errands(BaseModel):
    errands: int


def judged(site: Site, options: Options) -> Agent[Any]:
    """An answer in a type; the first time its validator runs, the process is killed."""

    def validated(answer: Errands, context: OutputContext) -> Errands:
        first_time = not site.ledger.counts()["verdict"]
        site.ledger.write("verdict", context.session_id)
        if first_time:
            os.kill(os.getpid(), signal.SIGKILL)
        if answer.errands < 3:
            raise OutputRejected("there are three errands")
        return answer

    def paid(text: str) -> Reply:
        def reply(request: ModelRequest) -> str:
            site.ledger.write("reply", str(request.call_index))
            return text

        return reply

    model = ScriptedModel([paid('{"errands": 2}'), paid('{"errands": "3"}')])
    return _builder(model).with_output(Errands).with_output_validator(validated).build()


class Caller(BaseModel):
    tenant: str


SECRET = "s3cr3t-of-the-shop"  # noqa: S105 - looked for in the store


def told(site: Site, options: Options) -> Agent[Any, Any]:
    """An agent with a context and resources; the first time it uses them, the process is killed."""

    @asynccontextmanager
    async def opened(caller: Caller) -> AsyncGenerator[str]:
        site.ledger.write("open", caller.tenant)
        yield SECRET
        site.ledger.write("close", caller.tenant)

    @tool(effect=ToolEffect.READ)
    def look(context: ToolContext[Caller, str]) -> str:
        """Look at the orders."""
        assert context.resources == SECRET
        site.ledger.write("look", context.data.tenant)
        if site.ledger.counts()["look"] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"orders of {context.data.tenant}"

    builder = _builder(ScriptedModel([call("look"), "All done."]), look).with_context(Caller)
    return builder.with_resources(opened).build()


AGENTS = cast(
    "Mapping[str, Callable[[Site, Options], Agent[Any]]]",
    {
        made.__name__: made
        for made in (errands, triple, gated_model, gated_tool, deadly, over_http, family, judged, told)
    },
)
