"""Hooks, criteria, tools and listeners get copies: what they change in place changes neither the run nor its log."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest
from msgspec import structs

from steptrail import AgentBuilder, HookType, Message, ToolEffect, tool
from steptrail.continuation import ContinuationDecision, ContinuationEvaluation, StateView
from steptrail.domain.agent.events import AgentEvent, InferenceCompleted, MetadataChanged, ToolCallAmended
from steptrail.domain.agent.state import AgentState
from steptrail.domain.base import full_form
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.messages import ProviderPart, ToolCallPart
from steptrail.hooks import CallableHook, CallableMatcher, HookState
from steptrail.lifecycle import RunEvent
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import ScriptedModel, call, calls, say
from steptrail.tools import ToolContext
from tests.runner.kit import trail_of

Spoil = Callable[[HookState], None]


def scribble(value: Any, depth: int = 0) -> None:
    """Change in place whatever can be changed in place below a value."""
    if depth > 12 or isinstance(value, str | bytes | type):
        return
    for inner in _inside(value):
        scribble(inner, depth + 1)
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        for key in [key for key, entry in entries.items() if isinstance(entry, str | int)]:
            entries[key] = "mallory"
        entries["scribbled"] = True
    elif hasattr(value, "append"):
        value.append("scribbled")


def _inside(value: Any) -> list[Any]:
    """Return what a value holds: entries, items, or what its attributes show."""
    if isinstance(value, Mapping):
        return list(cast("Mapping[str, Any]", value).values())
    if hasattr(value, "__getitem__") and hasattr(value, "__len__"):
        return [value[place] for place in range(len(value))]
    if not type(value).__module__.startswith("steptrail.domain"):
        return []
    names = [name for name in dir(value) if not name.startswith(("_", "model_"))]
    found: list[Any] = []
    for name in names:
        with suppress(Exception):  # some attributes are for classes alone
            found.append(getattr(value, name))
    return [each for each in found if not callable(each)]


class Scene:
    """A run of an agent that pays, with a reply, metadata and results that hold something to change."""

    def __init__(self) -> None:
        self.paid: list[dict[str, Any]] = []
        self.requests: list[list[dict[str, Any]]] = []

    def builder(self, *, approval: bool = False) -> AgentBuilder:
        @tool(effect=ToolEffect.UNSAFE, approval=approval)
        def pay(to: str, tags: list[str], context: ToolContext) -> dict[str, Any]:
            """Pay."""
            self.paid.append({"to": to, "tags": list(tags)})
            assert context.state is not None
            scribble(tags)
            return {"to": to, "receipt": [1, {"n": 2}]}

        opaque = ProviderPart(provider="p", data={"k": ["v"]})
        first = calls(("pay", {"to": "ana", "tags": ["a"]}), ("pay", {"to": "ben", "tags": ["b"]}))
        first = structs.replace(first, parts=(*first.parts, opaque))
        model = ScriptedModel([first, call("pay", to="eva", tags=[]), say("done")])
        self.model = model
        return AgentBuilder("clerk").with_model(model).with_tools(pay)


def logged(records: Sequence[Recorded[AgentEvent]]) -> list[dict[str, Any]]:
    """Return what is stored, without what differs from run to run."""
    kept = [full_form(record.event) for record in records]
    for each in kept:
        if each.get("agent"):
            each["agent"] = {key: value for key, value in each["agent"].items() if key not in {"hooks", "fingerprint"}}
            each["agent"].pop("criteria", None)
    return [each for each in kept if "hook_type" not in each]


async def outcome_of(agent: Agent, scene: Scene) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Any]]:
    metadata: dict[str, JsonValue] = {"box": {"n": [1, {"deep": [2]}]}, "who": "ana"}
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s", metadata=metadata)
        assert result.state == await trail.session("s").state()
        events = logged(await trail.session("s").events())
        shown = [[full_form(message) for message in request.messages] for request in scene.model.requests]
        return events, scene.paid, shown


async def plain() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[Any]]:
    scene = Scene()
    return await outcome_of(scene.builder().build(), scene)


@pytest.mark.parametrize("hook_type", list(HookType))
async def test_whatever_a_hook_scribbles_on_changes_nothing_live_or_stored(hook_type: HookType) -> None:
    scene, looks = Scene(), list[HookState]()

    def spoil(state: HookState) -> HookState:
        looks.append(state)
        scribble(state)
        return state

    builder = scene.builder().with_hook(hook_type, CallableHook(spoil, "spoil"))
    assert await outcome_of(builder.build(), scene) == await plain()
    assert looks or hook_type is HookType.ON_ERROR


async def test_whatever_a_matcher_scribbles_on_changes_nothing() -> None:
    scene = Scene()

    def spoil(state: HookState, hook_type: HookType) -> bool:
        del hook_type
        scribble(state)
        return True

    builder = scene.builder()
    nothing = CallableHook(lambda state: state, "n")
    builder.with_hook(HookType.PRE_TOOL_USE, nothing, matcher=CallableMatcher(spoil))
    assert await outcome_of(builder.build(), scene) == await plain()


class Scribbler:
    """A criterion that scribbles, and keeps its own vote."""

    is_guard = True

    def __init__(self) -> None:
        self.votes: list[ContinuationEvaluation] = []

    def explain(self, state: StateView) -> ContinuationEvaluation | None:
        scribble(state)
        for vote in self.votes:
            scribble(vote.context)
        vote = ContinuationEvaluation(
            criterion_class="Scribbler", decision=ContinuationDecision.ALLOW, context={"seen": [1]}
        )
        self.votes.append(vote)
        return vote


async def test_whatever_a_criterion_scribbles_on_changes_nothing_and_its_votes_stay_what_they_were() -> None:
    scene = Scene()
    events, paid, shown = await outcome_of(scene.builder().with_criteria(Scribbler()).build(), scene)
    votes = [vote for event in events for vote in event.get("votes", ())]
    assert [vote["context"] for vote in votes if vote["criterion_class"] == "Scribbler"] == [{"seen": [1]}] * 4
    for event in events:
        if "votes" in event:
            assert event.pop("read_settings") == (event["phase"] != "stop")
            event["votes"] = [vote for vote in event["votes"] if vote["criterion_class"] != "Scribbler"]
    without, *rest = await plain()
    assert [event.pop("read_settings") for event in without if "votes" in event] == [False] * 4
    assert (events, paid, shown) == (without, *rest)


async def test_whatever_a_listener_or_a_callback_scribbles_on_changes_nothing() -> None:
    scene = Scene()

    def spoil(told: RunEvent) -> None:
        scribble(getattr(told, "args", None))
        scribble(getattr(told, "result", None))

    async with trail_of() as trail:
        trail.wiretap(spoil)
        metadata: dict[str, JsonValue] = {"box": {"n": [1, {"deep": [2]}]}, "who": "ana"}
        await trail.run(scene.builder().build(), "go", session="s", metadata=metadata, on_commit=scribble)
        events = logged(await trail.session("s").events())
        assert (
            events,
            scene.paid,
            [[full_form(m) for m in r.messages] for r in scene.model.requests],
        ) == await plain()


async def test_whatever_a_tool_scribbles_on_the_state_it_is_shown_changes_nothing() -> None:
    scene = Scene()
    builder = scene.builder()

    @tool(effect=ToolEffect.READ)
    def look(context: ToolContext) -> str:
        """Look."""
        assert isinstance(context.state, AgentState)
        scribble(context.state)
        return "seen"

    script = [calls(("look", {}), ("pay", {"to": "ana", "tags": ["a"]})), call("look"), say("done")]
    agent = builder.with_tools(look).with_model(ScriptedModel(script)).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "go", session="s", metadata={"box": {"n": [1]}})
        assert result.state == await trail.session("s").state()
        assert dict(result.state.metadata) == {"box": {"n": [1]}}
    assert scene.paid == [{"to": "ana", "tags": ["a"]}]


async def test_the_natural_way_to_add_an_argument_is_recorded_and_the_model_keeps_its_own_words() -> None:
    scene = Scene()

    def add(state: HookState) -> HookState:
        wanted = state.current_execution.tool_call
        assert wanted is not None
        arguments = wanted.arguments or {}
        arguments["to"] = "ana's shop"
        changed = state.with_tool_arguments(arguments)
        arguments["to"] = "mallory"
        return changed

    async with trail_of() as trail:
        agent = scene.builder().with_hook(HookType.PRE_TOOL_USE, CallableHook(add, "add")).build()
        result = await trail.run(agent, "go", session="s")
        assert result.state == await trail.session("s").state()
        events = [record.event for record in await trail.session("s").events()]
        amended = [event.arguments["to"] for event in events if isinstance(event, ToolCallAmended)]
        assert amended == ["ana's shop"] * 3
        reply = next(event.reply for event in events if isinstance(event, InferenceCompleted))
        assert [part.arguments and part.arguments["to"] for part in reply.tool_calls] == ["ana", "ben"]
        asked = scene.model.requests[-1].messages[1]
        assert [part.arguments and part.arguments["to"] for part in asked.tool_calls] == ["ana", "ben"]
    assert [each["to"] for each in scene.paid] == ["ana's shop"] * 3


async def test_what_a_hook_gives_is_copied_too() -> None:
    scene = Scene()
    kept: dict[str, Any] = {"n": [1]}
    part = ToolCallPart(id="x", name="pay", arguments={"to": "ana", "tags": []})
    vote = ContinuationEvaluation(criterion_class="v", decision=ContinuationDecision.ALLOW, context={"n": [1]})

    def give(state: HookState) -> HookState:
        said = (Message.assistant("", tool_calls=(part,)), Message.tool("x", "pay", "paid"))
        changed = state.with_metadata("box", kept).with_messages(*said).with_evaluation(vote)
        scribble(kept)
        scribble(part.arguments)
        scribble(vote.context)
        return changed

    def later(state: HookState) -> HookState:
        box = state.metadata["box"]
        assert isinstance(box, dict)
        box["n"] = "changed in the same phase"
        return state

    async with trail_of() as trail:
        builder = scene.builder().with_hook(HookType.EXECUTION_START, CallableHook(give, "give"))
        builder.with_hook(HookType.EXECUTION_START, CallableHook(later, "later"))
        result = await trail.run(builder.build(), "go", session="s")
        assert dict(result.state.metadata) == {"box": {"n": [1]}}
        assert result.state == await trail.session("s").state()
        events = [record.event for record in await trail.session("s").events()]
        assert [event.changes for event in events if isinstance(event, MetadataChanged)] == [{"box": {"n": [1]}}]
        assert result.state.messages[1].tool_calls[0].arguments == {"to": "ana", "tags": []}


async def test_a_person_approves_what_runs_also_when_a_hook_has_scribbled_on_it() -> None:
    scene = Scene()

    def sneak(state: HookState) -> HookState:
        wanted = state.current_execution.tool_call
        assert wanted is not None
        assert wanted.arguments is not None
        wanted.arguments["to"] = "mallory"
        return state

    async with trail_of() as trail:
        agent = scene.builder(approval=True).with_hook(HookType.PRE_TOOL_USE, CallableHook(sneak, "s")).build()
        asked = await trail.run(agent, "go", session="s")
        approval, other = asked.state.open_approvals
        assert approval.digest == asked.state.tool_executions[0].arguments_digest
        await trail.session("s").approve(approval.id, by="ana")
        await trail.session("s").deny(other.id, by="ana")
        await trail.session("s").resume(agent)
    assert scene.paid == [{"to": "ana", "tags": ["a"]}]
