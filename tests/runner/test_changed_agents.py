"""An execution that is gone on with by an agent that was changed meanwhile: what differs is recorded, or refused."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, TypeAdapter

from steptrail import Agent, AgentBuilder, HookType, Limits, RunResult, Steptrail, tool
from steptrail.domain.json_value import JsonValue
from steptrail.errors import CommandRejected, SessionBusy
from steptrail.events import ExecutionResumed, StepCompleted
from steptrail.interfaces.python.session import Session
from steptrail.models import ModelReply, ModelRequest
from steptrail.runtime.agent.output import OutputModeName
from steptrail.testing import Reply, ScriptedModel, call
from tests.runner.kit import Crash, HandClock, again_on, agent_of, crash_at, hook, trail_of


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@tool
def look(place: str) -> str:
    """Look."""
    return "nothing"


def agent(name: str = "clerk") -> AgentBuilder:
    return AgentBuilder(name).with_model(ScriptedModel([call("pay", cents=1), "Done."])).with_tools(pay)


CHANGED = [
    (agent("cashier"), ("name",)),
    (agent().with_system_prompt("Be brief."), ("system_prompt",)),
    (agent().with_tools(look), ("tool look added",)),
    (AgentBuilder("clerk").with_model(ScriptedModel(["Done."])), ("tool pay removed",)),
]


@pytest.mark.parametrize(("changed", "names"), CHANGED, ids=[" ".join(names) for _, names in CHANGED])
async def test_what_was_changed_is_named_by_a_strict_resume_and_recorded_by_another(
    changed: AgentBuilder, names: tuple[str, ...]
) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        assert (await trail.run(agent().build(), "Pay.", session="s")).status == "waiting"
        session = trail.session("s")
        with pytest.raises(CommandRejected, match=f"the agent is not the recorded one: {', '.join(names)}$"):
            await session.resume(changed.build(), strict=True)
        await session.approve("s:1:1:0", by="ana")
        await session.resume(changed.build())
        resumed = [record.event for record in await session.events() if isinstance(record.event, ExecutionResumed)]
        assert [event.changes for event in resumed] == [names]


async def test_limits_and_policy_alone_are_named_as_such_by_a_strict_resume() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent().build(), "Pay.", session="s")
        with pytest.raises(CommandRejected, match="not the recorded one: limits, error policy or a workflow"):
            await trail.session("s").resume(agent().with_limits(Limits(max_steps=3)).build(), strict=True)


async def test_a_strict_resume_of_a_session_that_another_process_carries_on_leaves_it_to_that(store_url: str) -> None:
    at_work, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        at_work.set()
        await gate.wait()
        return "done"

    first = AgentBuilder("clerk").with_model(ScriptedModel([call("wait"), "Done."])).with_tools(wait).build()
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        running = asyncio.create_task(trail.run(first, "Wait.", session="s"))
        await at_work.wait()
        with pytest.raises(SessionBusy):
            await other.session("s").resume(agent().build(), strict=True)
        with pytest.raises(CommandRejected, match="not the recorded one"):
            await other.session("s").resume(agent().build(), strict=True, take_over=True)
        with pytest.raises(SessionBusy):
            await other.session("s").resume(first)
        gate.set()
        assert (await running).output == "Done."


def shouted() -> TypeAdapter[str]:
    """Return the same type anew, as another process makes it: its function lies elsewhere in memory."""

    def shout(word: str) -> str:
        return word.upper()

    return TypeAdapter(Annotated[str, AfterValidator(shout)])


async def test_an_agent_whose_types_have_functions_is_the_same_in_another_process() -> None:
    builders = [agent().with_output(kind).with_context(kind) for kind in (shouted(), shouted())]
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(builders[0].build(), "Pay.", session="s", context="ana")
        assert (await trail.session("s").resume(builders[1].build(), strict=True)).status == "waiting"


@dataclass
class Form:
    """The form in which a clerk answers, and the answer: in text without a type."""

    kind: TypeAdapter[Any] | None
    value: JsonValue
    mode: OutputModeName = "native"

    def agent(self, prompt: str, pauses: Session | None = None) -> Agent[Any]:
        """Return an agent that gives this answer, and has its session paused meanwhile."""
        builder = AgentBuilder("clerk").with_model(Clerk([self._said] * 5, pauses)).with_system_prompt(prompt)
        return builder.build() if self.kind is None else builder.with_output(self.kind, mode=self.mode).build()

    def _said(self, request: ModelRequest) -> ModelReply | str:
        assert request.messages[-1].role != "assistant"  # providers take that for an answer to be gone on with
        if self.kind is not None and self.mode == "tool":
            return call("final_result", value=self.value)
        return json.dumps({"value": self.value} if self.kind is not None else self.value)


class Clerk(ScriptedModel):
    """A model that has a session paused while it writes."""

    def __init__(self, script: Sequence[Reply], pauses: Session | None) -> None:
        super().__init__(script)
        self._pauses = pauses

    async def infer(self, request: ModelRequest) -> ModelReply:
        if self._pauses is not None:
            await self._pauses.pause()
        return await super().infer(request)


async def gone_on_with(before: Form, after: Form, *, in_a_fork: bool) -> RunResult[Any]:
    """Have one agent answer, and another go on between the answer and the decision that it is one."""
    async with Steptrail.open("sqlite:///:memory:") as trail:
        session = trail.session("s")
        if not in_a_fork:
            assert (await trail.run(before.agent("Begin.", session), "Go.", session="s")).status == "paused"
            return await session.resume(after.agent("Go on."))
        await trail.run(before.agent("Begin."), "Go.", session="s")
        (ended,) = [each.version for each in await session.events() if isinstance(each.event, StepCompleted)]
        return await (await session.fork(at=ended)).resume(after.agent("Go on."))


NUMBER, WORDS = TypeAdapter(int), TypeAdapter(list[str])


@pytest.mark.parametrize("in_a_fork", [False, True])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Form(NUMBER, 7), Form(WORDS, ["a"])),
        (Form(NUMBER, 7, "tool"), Form(WORDS, ["a"], "tool")),
        (Form(NUMBER, 7), Form(WORDS, ["a"], "last")),
        (Form(None, 7), Form(WORDS, ["a"])),
        (Form(NUMBER, 7, "tool"), Form(None, "a")),
    ],
    ids=["native", "tool", "last", "from text", "to text"],
)
async def test_an_answer_in_another_form_than_that_of_who_goes_on_is_asked_for_anew(
    before: Form, after: Form, in_a_fork: bool
) -> None:
    result = await gone_on_with(before, after, in_a_fork=in_a_fork)
    assert (result.status, result.answered, result.state.step_count) == ("completed", True, 2)
    assert result.output == (after.value if after.kind is not None else json.dumps(after.value))


@pytest.mark.parametrize("in_a_fork", [False, True])
@pytest.mark.parametrize("form", [Form(NUMBER, 7), Form(NUMBER, 7, "tool"), Form(None, 7)], ids=repr)
async def test_an_answer_in_the_form_of_who_goes_on_is_not_asked_for_again(form: Form, in_a_fork: bool) -> None:
    result = await gone_on_with(form, form, in_a_fork=in_a_fork)
    assert (result.status, result.answered, result.state.step_count) == ("completed", True, 1)


@pytest.mark.parametrize("cut_in", [HookType.STOP, HookType.AFTER_STEP])
async def test_an_answer_in_another_form_is_asked_for_anew_also_behind_a_stop_or_a_wait_for_resources(
    cut_in: HookType,
) -> None:
    opens, clock = [True, cut_in is HookType.STOP, True], HandClock()

    @asynccontextmanager
    async def opener(_: object) -> AsyncGenerator[None]:
        if not opens.pop(0):
            raise ConnectionError
        yield

    before = agent_of(["seven"], (cut_in, hook("look", lambda _: None))).with_resources(opener).build()
    after = agent_of(["seven", call("final_result", value=7)]).with_output(int, mode="tool").build()
    async with trail_of(clock, crash_at("after-hooks")) as trail:
        with pytest.raises(Crash):
            await trail.run(before, "Go.", session="s")
        session = again_on(trail, clock).session("s")
        if cut_in is HookType.AFTER_STEP:
            assert (await session.resume(before)).status == "waiting"
            clock.advance(60)
        result = await session.resume(after, limits=Limits(max_steps=5))
    assert (result.status, result.answered, result.output) == ("completed", True, 7)
