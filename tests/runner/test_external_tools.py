"""Calls that somebody outside answers: asked with all other questions, in one wait, and answered once, anywhere."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from steptrail import (
    AgentBuilder,
    ErrorPolicy,
    HookType,
    Limits,
    Steptrail,
    ToolContext,
    ToolEffect,
    external_tool,
    tool,
)
from steptrail.domain.agent.events import (
    ExecutionResumed,
    ExecutionStarted,
    ToolCallDeferred,
    ToolExecutionFailed,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.errors import CommandRejected, ConfigurationError, NotStorable
from steptrail.domain.hooks.state import HookState
from steptrail.domain.inference import FinishReason, ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import ToolCallPart
from steptrail.domain.output import OutputMode
from steptrail.domain.usage import Usage
from steptrail.interfaces.python.recording import Recording
from steptrail.interfaces.python.redaction import redact
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import Reply, ScriptedModel, call, calls, replay
from steptrail.tools import ApprovalRule, SubagentTool
from steptrail.workflow import Workflow
from tests.runner.kit import Crash, HandClock, again_on, crash_at, hook, trail_of


class PickFile(BaseModel):
    kind: str
    at_most: int = 1


class FileInfo(BaseModel):
    name: str
    size: int = 0


pick = external_tool("pick_file", "Let the user pick a file.", PickFile, expires=3600, result=FileInfo)
confirm = external_tool("confirm", "Ask the user.", {"type": "object", "properties": {}})


class Desk:
    """The outside world: what was paid and noted, in order. A call that comes again takes effect once."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=7200))
        def pay(cents: int) -> str:
            """Pay."""
            self.done.append(f"pay {cents}")
            return f"paid {cents}"

        @tool(effect=ToolEffect.KEYED)
        def note(text: str, context: ToolContext) -> str:
            """Write something down."""
            if (what := f"{context.effect_id} {text}") not in self.done:
                self.done.append(what)
            return text

        self.tools = (pay, note, pick, confirm)

    def agent(self, *script: Reply, **settings: Any) -> Agent:
        builder = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(*self.tools)
        return builder.with_limits(Limits(**settings)).build()


PICK: tuple[str, dict[str, Any]] = ("pick_file", {"kind": "png"})
NOTE: tuple[str, dict[str, Any]] = ("note", {"text": "n"})
PAY: tuple[str, dict[str, Any]] = ("pay", {"cents": 1})
FILE = {"name": "a.png"}


async def kinds_in(trail: Steptrail) -> list[str]:
    shown = (WaitStarted, WaitEnded, ToolCallDeferred)
    events = [record.event for record in await trail.session("s").history()]
    found = [event for event in events if isinstance(event, shown)]
    return [event.kind if isinstance(event, WaitStarted) else event.TYPE for event in found]


@pytest.mark.acceptance("10.3-1")
async def test_two_external_calls_and_an_approval_are_three_questions_in_one_wait_answered_from_another_process() -> (
    None
):
    desk, clock = Desk(), HandClock()
    agent = desk.agent(calls(PICK, NOTE, PAY, ("confirm", {})), "Done.")
    async with trail_of(clock) as trail:
        asked = await trail.run(agent, "go", session="s")
        # The call between them ran meanwhile, and the one that needs a yes did not.
        assert (asked.status, desk.done) == ("waiting", ["s:1:1:1 n"])
        questions = [(each.id, each.kind, each.tool) for each in await trail.inbox()]
        assert questions == [
            ("s:1:1:0", "external", "pick_file"),
            ("s:1:1:2", "approval", "pay"),
            ("s:1:1:3", "external", "confirm"),
        ]
        assert [each.tool for each in asked.state.open_calls] == ["pick_file", "confirm"]
        session = again_on(trail, clock).session("s")
        assert (await session.answer("s:1:1:3", True, by="ben")).status == "waiting"
        await session.approve("s:1:1:2", by="ana")
        assert list(await trail.due()) == []
        last = await session.answer("s:1:1:0", FILE, by="ana")
        assert list(last.state.open_calls) == []
        assert [row.session_id for row in await trail.due()] == ["s"]
        done = await session.resume(agent)
        assert (done.output, desk.done) == ("Done.", ["s:1:1:1 n", "pay 1"])
        assert [call.result for call in done.state.steps[0].tool_executions] == [FILE, "n", "paid 1", True]
        kinds = ["tool.call.deferred.v1", "tool.call.deferred.v1", "approval", "wait.ended.v1"]
        assert await kinds_in(trail) == kinds


async def test_an_answer_is_taken_once_and_its_key_makes_it_safe_to_repeat() -> None:
    agent = Desk().agent(calls(PICK), "Done.")
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        session = trail.session("s")
        for wrong in ("s:1:1:1", "", "t:1:1:0", "s:1:1:0\n"):
            with pytest.raises(CommandRejected, match="open are: s:1:1:0"):
                await session.answer(wrong, FILE, by="ana")
        with pytest.raises(CommandRejected, match="does not fit: 'name' is a required property"):
            await session.answer("s:1:1:0", {"nome": 1}, by="ana")
        with pytest.raises(NotStorable):
            await session.answer("s:1:1:0", {"name": float("nan")}, by="ana")
        with pytest.raises(ConfigurationError, match="one of them"):
            await session.answer("s:1:1:0", FILE, error="no", by="ana")
        for _ in range(2):
            await session.answer("s:1:1:0", FILE, by="ana", key="k")
        with pytest.raises(CommandRejected, match=r"ana has settled it already, at .*, and a call is answered once"):
            await session.answer("s:1:1:0", FILE, by="ben")
        with pytest.raises(CommandRejected, match="key"):
            await session.approve("s:1:1:0", by="ben", key="k")
        assert (await session.resume(agent)).output == "Done."
        assert (await session.answer("s:1:1:0", FILE, by="ana", key="k")).status == "completed"


async def test_a_failure_that_is_answered_is_one_of_the_tool_and_one_that_nobody_answers_is_a_timeout() -> None:
    clock = HandClock()
    agent = Desk().agent(calls(PICK, ("confirm", {})), "Done.")
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s")
        session = trail.session("s")
        await session.answer("s:1:1:1", error="no camera", by="ana")
        clock.advance(3600)
        with pytest.raises(CommandRejected, match=r"it expired at .*, so the call has failed; `resume`"):
            await session.answer("s:1:1:0", FILE, by="ana")
        assert [row.session_id for row in await trail.due()] == ["s"]
        done = await session.resume(agent)
        assert (done.status, done.stop_reason) == ("failed", "error")
        errors = [
            (call.error.type.value, call.error.message) for call in done.state.steps[0].tool_executions if call.error
        ]
        assert errors == [("timeout", "nobody answered the call of pick_file in time"), ("tool", "no camera")]


async def test_arguments_that_do_not_fit_are_told_to_the_model_and_nobody_is_asked() -> None:
    part = ToolCallPart(id="c", name="theirs", raw="no JSON")
    raw = ModelReply(parts=(part,), finish_reason=FinishReason.TOOL_CALLS, usage=Usage())
    script = [call("pick_file", kind=1), call("theirs", really=True), raw, "Done."]
    builder = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(pick)
    agent = builder.with_error_policy(ErrorPolicy.retry_all(9)).build()
    theirs = external_tool("theirs", "", {"type": "object", "properties": {}, "additionalProperties": False})
    clock = HandClock()
    async with trail_of(clock) as trail:
        done = await trail.run(agent, "go", session="s", external_tools=[theirs], on_commit=clock.sit_out)
        assert done.status == "completed"
        problems = [step.tool_executions[0].error for step in done.state.steps[:3]]
        assert [error.type.value for error in problems if error] == ["validation"] * 3
        assert "there is no parameter 'really'" in str(problems[1])
        assert await kinds_in(trail) == []


async def test_a_stop_ends_the_wait_and_says_that_nobody_knows() -> None:
    agent = Desk().agent(calls(PICK, PAY))
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        stopped = await trail.session("s").stop(by="ben")
        assert (stopped.status, stopped.stop_reason) == ("completed", "user_requested")
        statuses = [call.status.value for call in stopped.state.steps[0].tool_executions]
        assert statuses == ["interrupted", "cancelled"]
        with pytest.raises(CommandRejected, match="waits for a result"):
            await trail.session("s").answer("s:1:1:0", FILE, by="ana")


async def test_a_pause_a_message_and_a_resume_ask_nobody_again() -> None:
    agent = Desk().agent(calls(PICK), "Done.", "And that.")
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s")
        session = trail.session("s")
        assert (await session.resume(agent)).status == "waiting"
        assert (await session.send(agent, "Hurry")).status == "waiting"
        await session.pause(by="ana")
        assert (await session.answer("s:1:1:0", FILE, by="ana")).status == "paused"
        done = await session.resume(agent)
        assert done.status == "completed"
        assert (await kinds_in(trail)).count("tool.call.deferred.v1") == 1


async def test_an_answer_that_comes_while_another_call_runs_is_kept() -> None:
    gate, begun = asyncio.Event(), asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def slow() -> str:
        """Wait."""
        begun.set()
        await gate.wait()
        return "slow"

    script = [calls(PICK, ("slow", {})), "Done."]
    agent = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(pick, slow).build()
    async with trail_of() as trail:
        running = asyncio.ensure_future(trail.run(agent, "go", session="s"))
        await begun.wait()
        await again_on(trail).session("s").answer("s:1:1:0", FILE, by="ana")
        gate.set()
        done = await running
        assert (done.status, done.output) == ("completed", "Done.")
        assert await kinds_in(trail) == ["tool.call.deferred.v1"]


async def test_a_hook_may_hold_refuse_or_change_an_external_call_before_anybody_is_asked() -> None:
    def change(state: HookState) -> HookState | None:
        wanted = state.current_execution.tool_call
        if wanted is None or wanted.name == "confirm":
            return state.with_blocked_tool_call("not now") if wanted is not None else None
        return state.with_held_tool_call("who?")

    builder = AgentBuilder("desk").with_model(ScriptedModel([calls(PICK, ("confirm", {})), "Done."]))
    agent = builder.with_tools(pick, confirm).with_hook(HookType.PRE_TOOL_USE, hook("change", change)).build()
    async with trail_of() as trail:
        asked = await trail.run(agent, "go", session="s")
        assert ([a.id for a in asked.state.open_approvals], list(asked.state.open_calls)) == (["s:1:1:0"], [])
        session = trail.session("s")
        await session.approve("s:1:1:0", by="ana", arguments={"kind": "gif"})
        waits = await session.resume(agent)
        assert [call.arguments for call in waits.state.open_calls] == [{"kind": "gif"}]
        await session.answer("s:1:1:0", FILE, by="ana")
        assert (await session.resume(agent)).status in {"completed", "failed"}


@pytest.mark.acceptance("10.3-2")
@pytest.mark.parametrize("number", range(1, 9))
@pytest.mark.parametrize("point", ["before-append", "after-append", "before-tool", "after-tool", "after-wait"])
async def test_a_crash_anywhere_asks_once_and_loses_no_answer(point: str, number: int) -> None:
    desk, clock = Desk(), HandClock()
    agent = desk.agent(calls(PICK, NOTE, ("confirm", {})), "Done.")
    async with trail_of(clock, crash_at(point, number)) as trail:
        for _ in range(2):
            try:
                await trail.run(agent, "go", session="s")
                break
            except Crash:
                continue
        session = again_on(trail, clock).session("s")
        state = await session.state()
        if state.status != "waiting":
            state = (await again_on(trail, clock).run(agent, "go", session="s")).state
        assert [each.id for each in state.open_calls] == ["s:1:1:0", "s:1:1:2"]
        await session.answer("s:1:1:2", True, by="ana")
        await session.answer("s:1:1:0", FILE, by="ana")
        assert (await session.resume(agent)).output == "Done."
        assert (await kinds_in(trail)).count("tool.call.deferred.v1") == 2
        assert desk.done == ["s:1:1:1 n"]


async def test_a_run_takes_tools_for_itself_and_keeps_them_over_a_deploy_a_retry_and_a_fork_but_not_for_the_next() -> (
    None
):
    theirs = external_tool("where", "Where the user is.", {"type": "object"})

    script = [call("where"), RuntimeError("away"), call("where"), "There.", call("where")]

    def agent(prompt: str) -> Agent:
        return AgentBuilder("desk").with_model(ScriptedModel(script)).with_system_prompt(prompt).build()

    first = agent("a")
    async with trail_of() as trail:
        asked = await trail.run(first, "go", session="s", external_tools=[theirs])
        assert [each.tool for each in asked.state.open_calls] == ["where"]
        session = trail.session("s")
        with pytest.raises(CommandRejected, match=r"system_prompt$"):
            await session.resume(agent("b"), strict=True)
        await session.answer("s:1:1:0", "Rome", by="page")
        failed = await session.resume(agent("b"))
        assert failed.status == "failed"
        retried = await session.retry(agent("b"))
        assert [each.id for each in retried.state.open_calls] == ["s:2:1:0"]
        await session.answer("s:2:1:0", "Pisa", by="page")
        assert (await session.resume(agent("b"))).output == "There."
        ended = await session.send(agent("b"), "Again?")
        assert ended.state.steps[0].tool_executions[0].error is not None
        begun = [record.event for record in await session.history() if isinstance(record.event, ExecutionStarted)]
        assert [len(event.external_tools) for event in begun] == [1, 1, 0]


async def test_a_tool_that_a_run_may_not_take_is_refused_before_anything_is_stored() -> None:
    desk = Desk()
    agent = desk.agent("Done.")
    taken: Sequence[Any] = [[pick], [desk.tools[1]], ["x"], [confirm, confirm]]
    async with trail_of() as trail:
        for tools in taken:
            with pytest.raises(ConfigurationError, match="tool"):
                await trail.run(agent, "go", session="s", external_tools=tools)
        with pytest.raises(ConfigurationError, match="without `external_tools`"):
            await trail.run(Workflow("w").noop("n").build(), "go", external_tools=[pick])  # type: ignore[call-overload]
        assert list(await trail.runs()) == []
    with pytest.raises(ConfigurationError, match="tool 'confirm' has no body"):
        Workflow("w").tool("n", confirm)


class NativeAlone(ScriptedModel):
    """A server whose grammar leaves no room for tools beside an answer in a type."""

    def output_modes(self, schema: Mapping[str, JsonValue], *, with_tools: bool) -> Sequence[OutputMode]:
        return (OutputMode.LAST,) if with_tools else (OutputMode.NATIVE,)


async def test_how_a_typed_answer_is_asked_for_goes_by_the_tools_of_the_run() -> None:
    script = [call("confirm"), "I know.", '{"name": "a"}', '{"name": "b"}']
    agent = AgentBuilder("desk").with_model(NativeAlone(script)).with_output(FileInfo).build()
    async with trail_of() as trail:
        await trail.run(agent, "go", session="s", external_tools=[confirm])
        session = trail.session("s")
        await session.answer("s:1:1:0", True, by="ana")
        done = await session.resume(agent)
        assert done.output == FileInfo(name="a")
        assert (await session.send(agent, "Once more")).output == FileInfo(name="b")
        begun = [record.event for record in await session.history() if isinstance(record.event, ExecutionStarted)]
        modes = [event.agent.output.mode for event in begun if event.agent.output is not None]
        assert modes == [OutputMode.LAST, OutputMode.NATIVE]
        assert len({event.agent.fingerprint for event in begun}) == 1


async def test_the_form_of_a_typed_answer_suits_the_tools_of_the_run_also_after_a_deploy_and_in_a_retry() -> None:
    model = NativeAlone([call("confirm"), "I know.", RuntimeError("away"), "I know.", '{"name": "a"}'])
    builder = AgentBuilder("desk").with_model(model).with_output(FileInfo)
    first, deployed = builder.build(), builder.with_system_prompt("Be brief.").build()
    async with trail_of() as trail:
        await trail.run(first, "go", session="s", external_tools=[confirm])
        session = trail.session("s")
        await session.answer("s:1:1:0", True, by="ana")
        assert (await session.resume(deployed)).status == "failed"
        assert (await session.retry(deployed)).output == FileInfo(name="a")
        events = [record.event for record in await session.history()]
        changed = [event for event in events if isinstance(event, ExecutionResumed) and event.agent is not None]
        assert [event.changes for event in changed] == [("system_prompt",)]
        agents = [event.agent for event in events if isinstance(event, ExecutionStarted | ExecutionResumed)]
        modes = [agent.output.mode for agent in agents if agent is not None and agent.output is not None]
        assert modes == [OutputMode.LAST] * 3


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"parameters": {"type": "array"}}, "no JSON schema of an object"),
        ({"parameters": int}, "no JSON schema of an object"),
        ({"parameters": Steptrail}, "the parameters of external tool"),
        ({"parameters": PickFile, "expires": 0}, "expires"),
        ({"parameters": PickFile, "expires": float("inf")}, "expires"),
        ({"parameters": PickFile, "name": "a b"}, "name"),
        ({"parameters": PickFile, "result": object()}, "the result of external tool"),
        ({"parameters": PickFile, "result": {"type": "objekt"}}, "the result of external tool 'pick': the schema"),
        ({"parameters": PickFile, "result": {"pattern": "("}}, "'\\(' is not a 'regex'"),
    ],
)
def test_what_is_no_external_tool_is_refused_by_name(wrong: dict[str, Any], match: str) -> None:
    given: dict[str, Any] = {"name": "pick", "description": "", **wrong}
    with pytest.raises(ConfigurationError, match=match):
        external_tool(**given)


async def test_the_tool_of_a_subagent_is_answered_in_its_own_session_and_the_caller_goes_on() -> None:
    clerk = AgentBuilder("clerk").with_model(ScriptedModel([calls(PICK), "Got it."])).with_tools(pick).build()
    boss = AgentBuilder("boss").with_model(ScriptedModel([call("clerk", prompt="go"), "Done."]))
    agent = boss.with_tools(SubagentTool(clerk)).build()
    async with trail_of() as trail:
        assert (await trail.run(agent, "go", session="s")).status == "waiting"
        (question,) = await trail.inbox()
        await trail.session(question.stream.removeprefix("agent:")).answer(question.id, FILE, by="ana")
        assert (await trail.session("s").resume(agent)).output == "Done."


async def test_a_call_is_asked_for_while_the_run_waits_for_a_subagent_and_its_answer_wakes_nobody() -> None:
    clerk = AgentBuilder("clerk").with_model(ScriptedModel([call("confirm"), "Got it."])).with_tools(confirm).build()
    boss = AgentBuilder("boss").with_model(ScriptedModel([calls(PICK, ("clerk", {"prompt": "go"})), "Done."]))
    agent, clock = boss.with_tools(pick, SubagentTool(clerk)).build(), HandClock()
    async with trail_of(clock) as trail:
        assert (await trail.run(agent, "go", session="s")).status == "waiting"
        child, ours = sorted(await trail.inbox(), key=lambda question: question.tool or "")
        assert (ours.stream, ours.id, child.tool) == ("agent:s", "s:1:1:0", "confirm")
        await trail.session("s").answer(ours.id, FILE, by="ana")
        assert [question.id for question in await trail.inbox()] == [child.id]
        assert list(await trail.due()) == []
        await trail.session(child.stream.removeprefix("agent:")).answer(child.id, True, by="ana")
        assert {row.session_id for row in await trail.due()} >= {"s"}
        assert (await trail.session("s").resume(agent)).output == "Done."


async def test_a_recorded_run_is_driven_again_with_its_answers_in_their_places() -> None:
    clock = HandClock()
    desk = Desk()
    script = [
        calls(("pick_file", {"kind": "png", "at_most": 2}), NOTE),
        calls(("confirm", {}), ("theirs", {})),
        call("confirm"),
    ]
    builder = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(*desk.tools)
    agent = builder.with_error_policy(ErrorPolicy.ignore_tool_errors()).with_max_steps(3).build()
    theirs = external_tool("theirs", "", {"type": "object"})
    async with trail_of(clock) as trail:
        await trail.run(agent, "go", session="s", external_tools=[theirs])
        session = trail.session("s")
        await session.answer("s:1:1:0", {**FILE, "size": 3}, by="ana", reason="here", key="k")
        await session.resume(agent)
        await session.answer("s:1:2:1", error="gone", by="ben")
        await session.answer("s:1:2:0", None, by="ben")
        await session.resume(agent)
        clock.advance(80 * 3600.0)
        assert (await session.resume(agent)).status == "failed"
        records = await session.history()
        again = await replay(agent, Recording("s", records))
        assert [event.TYPE for event in again.events] == [record.event.TYPE for record in records]
        # What is left of the arguments and of a result does not fit its type, and was asked and answered all the same.
        hidden = redact(Recording("s", records), ["at_most", "size"])
        assert len((await replay(agent, hidden)).events) == len(records)
        failed = [event for event in again.events if isinstance(event, ToolExecutionFailed)]
        assert [(event.settled_by, event.expired) for event in failed] == [("ben", False), (None, True)]
