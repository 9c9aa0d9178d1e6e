from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    EvaluationsRecorded,
    HooksRan,
    InferenceRequestAmended,
    MessagesAppended,
    MetadataChanged,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallHeld,
    UsageRecorded,
)
from steptrail.domain.agent.events.decisions import DecisionPhase
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.inference import ToolChoice
from steptrail.domain.json_value import JsonValue
from steptrail.domain.messages import Message
from steptrail.domain.shared.run import StopReason
from steptrail.domain.tools import ApprovalRule
from steptrail.domain.usage import BilledUsage, ModelUsage, Usage
from steptrail.errors import ConfigurationError
from steptrail.hooks import CHANGES, CallableHook, HookStack, HookState, HookType
from tests.unit.hooks.given import at_boundary, in_calls, process, seen_by

VOTE = ContinuationEvaluation.from_decision("mine", ContinuationDecision.REQUEST)
NOTE = Message.user("note")

Change = Callable[[HookState], HookState]

BILL = Usage(input=3, output=2)
METHODS: dict[str, tuple[Change, AgentEvent]] = {
    "with_metadata": (lambda s: s.with_metadata("k", [1]), MetadataChanged(changes={"k": [1]}, by="the hook")),
    "without_metadata": (lambda s: s.without_metadata("city"), MetadataChanged(removed=("city",), by="the hook")),
    "with_usage": (
        lambda s: s.with_usage(BILL, ModelUsage(asked_for="m", usage=BILL)),
        UsageRecorded(hook="the hook", usage=BilledUsage.of(BILL, [ModelUsage(asked_for="m", usage=BILL)])),
    ),
    "with_evaluation": (
        lambda s: s.with_evaluation(VOTE),
        EvaluationsRecorded(phase=DecisionPhase.BOUNDARY, votes=(VOTE,), hook="the hook"),
    ),
    "with_messages": (
        lambda s: s.with_messages(NOTE),
        MessagesAppended(messages=(NOTE,), source=MessageSource.HOOK, by="the hook"),
    ),
    "with_request": (
        lambda s: s.with_request(tools=("read",), tool_choice="required", extra_messages=(NOTE,)),
        InferenceRequestAmended(
            hook="the hook", tools=("read",), tool_choice=ToolChoice.REQUIRED, extra_messages=(NOTE,)
        ),
    ),
    "with_tool_arguments": (
        lambda s: s.with_tool_arguments({"n": 5}),
        ToolCallAmended(position=1, arguments={"n": 5}, hook="the hook"),
    ),
    "with_blocked_tool_call": (
        lambda s: s.with_blocked_tool_call("not today"),
        ToolCallBlocked(position=1, reason="not today", hook="the hook"),
    ),
    "with_held_tool_call": (
        lambda s: s.with_held_tool_call("much money", expires=60),
        ToolCallHeld(position=1, rule=ApprovalRule(expires=60, reason="much money"), hook="the hook"),
    ),
}


async def recorded(change: Change, hook_type: HookType) -> list[AgentEvent]:
    """Return what one hook recorded, without the mark that it ran."""
    position = 1 if hook_type.is_tool_event() else None
    state = in_calls("read", "write") if position else at_boundary()
    stack = HookStack().with_hook(hook_type, CallableHook(change, "the hook"))
    *events, mark = await process(stack, hook_type, state, position=position)
    assert isinstance(mark, HooksRan)
    assert mark.hooks == ("the hook",)
    return events


def test_every_way_to_change_the_state_stands_in_the_table() -> None:
    offered = {name for name in vars(HookState) if name.startswith("with")}
    assert offered == set(CHANGES) == set(METHODS)


@pytest.mark.parametrize("method", sorted(CHANGES))
@pytest.mark.parametrize("hook_type", list(HookType))
async def test_a_change_is_an_event_with_the_hooks_name_or_a_vote_that_names_the_method(
    method: str, hook_type: HookType
) -> None:
    change, event = METHODS[method]
    events = await recorded(change, hook_type)
    if hook_type in CHANGES[method]:
        if isinstance(event, EvaluationsRecorded) and hook_type is HookType.STOP:
            event = structs.replace(event, phase="stop")
        assert events == [event]
        return
    refused = events[0]
    assert isinstance(refused, EvaluationsRecorded)
    (vote,) = refused.votes
    assert (vote.decision, vote.stop_reason) == (ContinuationDecision.FORBID, StopReason.ERROR)
    assert f"`{method}` may be called in" in vote.reason
    assert vote.reason.endswith(f"hooks, not in {hook_type.value}")
    # Before a tool the call is blocked as well: a hook that cannot do its work lets nothing through.
    assert [type(e) for e in events[1:]] == ([ToolCallBlocked] if hook_type is HookType.PRE_TOOL_USE else [])


def test_the_table_says_what_may_change_when() -> None:
    assert CHANGES["with_request"] == (HookType.BEFORE_INFERENCE,)
    assert CHANGES["with_tool_arguments"] == CHANGES["with_blocked_tool_call"] == (HookType.PRE_TOOL_USE,)
    for method in ("with_evaluation", "with_messages"):
        assert set(HookType) - set(CHANGES[method]) == {HookType.EXECUTION_END}


@pytest.mark.parametrize("expires", [0, -1, float("inf"), float("nan")])
async def test_a_hold_that_never_or_always_expires_is_the_hooks_mistake(expires: float) -> None:
    refused = (await recorded(lambda s: s.with_held_tool_call(expires=expires), HookType.PRE_TOOL_USE))[0]
    assert isinstance(refused, EvaluationsRecorded)
    assert "`with_held_tool_call` needs a positive number of seconds" in refused.votes[0].reason


async def test_a_blocked_call_is_not_held_as_well() -> None:
    events = await recorded(lambda s: s.with_blocked_tool_call("no").with_held_tool_call(), HookType.PRE_TOOL_USE)
    assert [type(event) for event in events] == [ToolCallBlocked]


def test_a_changed_state_shows_its_change_and_the_one_before_does_not() -> None:
    before = seen_by(HookType.PRE_TOOL_USE, in_calls("read", "write"), position=1)
    after = before.with_metadata("k", 1).with_tool_arguments({"n": 9})
    assert dict(after.metadata) == {"city": "Bern", "k": 1}
    assert dict(before.metadata) == {"city": "Bern"}
    assert after.current_execution.tool_call is not None
    assert after.current_execution.tool_call.arguments == {"n": 9}
    assert before.current_execution.tool_call is not None
    assert before.current_execution.tool_call.arguments == {"n": 1}


def test_a_vote_is_pending_until_the_next_decision() -> None:
    before = seen_by(HookType.AFTER_STEP, at_boundary())
    assert before.with_evaluation(VOTE).pending_votes == (VOTE,)
    assert before.pending_votes == ()


UNSTORABLE: list[Change] = [
    lambda s: s.with_metadata("k", cast("JsonValue", object())),
    lambda s: s.with_metadata("k", float("nan")),
    lambda s: s.with_metadata("k", "half of a pair: \ud83d"),
    lambda s: s.with_metadata("\ud83d", 1),
    lambda s: s.with_messages(Message.user("\ud83d")),
    lambda s: s.with_tool_arguments({"n": "\ud83d"}),
    lambda s: s.with_blocked_tool_call("\ud83d"),
    lambda s: s.with_evaluation(cast("ContinuationEvaluation", None)),
]


@pytest.mark.parametrize(
    "change",
    UNSTORABLE,
)
async def test_what_cannot_be_stored_is_refused_to_the_hook_that_wanted_it(change: Change) -> None:
    events = await recorded(change, HookType.PRE_TOOL_USE)
    assert [type(event) for event in events] == [EvaluationsRecorded, ToolCallBlocked]
    for event in events:
        msgspec.json.encode(event)


async def test_a_call_is_blocked_once_and_not_changed_any_more() -> None:
    def twice(state: HookState) -> HookState:
        state.with_blocked_tool_call("first")
        state.with_blocked_tool_call("second")
        return state.with_tool_arguments({"n": 5})

    assert await recorded(twice, HookType.PRE_TOOL_USE) == [
        ToolCallBlocked(position=1, reason="first", hook="the hook")
    ]


async def test_a_block_without_a_reason_names_the_tool() -> None:
    (blocked,) = await recorded(lambda s: s.with_blocked_tool_call(), HookType.PRE_TOOL_USE)
    assert isinstance(blocked, ToolCallBlocked)
    assert blocked.reason == "Tool 'write' is blocked"


def test_what_is_going_on_is_seen_at_each_point() -> None:
    before = seen_by(HookType.PRE_TOOL_USE, in_calls("read", "write", done=1), position=1).current_execution
    assert (before.execution_id, before.step_number) == ("s:1", 1)
    assert before.tool_call is not None
    assert (before.tool_call.name, before.tool_execution) == ("write", None)
    assert before.inference_response is not None
    assert before.error is None
    done = seen_by(HookType.POST_TOOL_USE, in_calls("read", "write", done=1), position=0).current_execution
    assert done.tool_execution is not None
    assert (done.tool_execution.name, done.tool_execution.result) == ("read", "ok")
    first = seen_by(HookType.EXECUTION_START, at_boundary()).current_execution
    assert (first.step_number, first.tool_call, first.inference_response) == (0, None, None)


@pytest.mark.parametrize("change", UNSTORABLE[:-1])
def test_what_cannot_be_stored_is_the_mistake_of_who_wrote_the_hook(change: Change) -> None:
    state = seen_by(HookType.PRE_TOOL_USE, in_calls("read"), position=0)
    with pytest.raises(ConfigurationError, match=r"`with_.*` was given what cannot be stored"):
        change(state)


async def test_what_a_request_may_show_and_holds_besides_may_be_lists() -> None:
    (amended,) = await recorded(
        lambda s: s.with_request(tools=["read"], extra_messages=[NOTE]), HookType.BEFORE_INFERENCE
    )
    assert amended == InferenceRequestAmended(hook="the hook", tools=("read",), extra_messages=(NOTE,))
    (none_left,) = await recorded(lambda s: s.with_request(tools=[]), HookType.BEFORE_INFERENCE)
    assert none_left == InferenceRequestAmended(hook="the hook", tools=())


OF_OTHER_TYPES: list[tuple[HookType, Callable[[Any], object], str]] = [
    (HookType.AFTER_STEP, lambda s: s.with_usage(7), "`with_usage`: the bill is of the class Usage, not int"),
    (HookType.AFTER_STEP, lambda s: s.with_usage(BILL, "m"), "`with_usage`: what a model has used is of the class Mod"),
    (HookType.AFTER_STEP, lambda s: s.with_evaluation("no"), "`with_evaluation`: a vote is of the class Continuation"),
    (HookType.AFTER_STEP, lambda s: s.with_messages("hi"), "`with_messages`: what is added is of the class Message"),
    (HookType.BEFORE_INFERENCE, lambda s: s.with_request(extra_messages=["hi"]), "`with_request`: what is added is of"),
    (HookType.BEFORE_INFERENCE, lambda s: s.with_request(extra_messages=NOTE), "`with_request`: `extra_messages`: Exp"),
    (HookType.BEFORE_INFERENCE, lambda s: s.with_request(tools="read"), "`with_request`: `tools`: Expected a list, go"),
    (HookType.BEFORE_INFERENCE, lambda s: s.with_request(tools=[7]), "`with_request`: the name of a tool is a text, n"),
    (HookType.BEFORE_INFERENCE, lambda s: s.with_request(tool_choice="must"), "`with_request`: 'must' is not a valid"),
    (HookType.PRE_TOOL_USE, lambda s: s.with_tool_arguments([1]), "`with_tool_arguments` takes a dictionary, not list"),
]


@pytest.mark.parametrize(("hook_type", "change", "why"), OF_OTHER_TYPES)
async def test_a_hook_that_gives_another_type_is_told_what_to_give(
    hook_type: HookType, change: Callable[[Any], object], why: str
) -> None:
    refused = (await recorded(cast("Change", change), hook_type))[0]
    assert isinstance(refused, EvaluationsRecorded)
    (vote,) = refused.votes
    assert vote.context["exception"] == "steptrail.domain.errors.ConfigurationError"
    assert str(vote.context["message"]).startswith(why)
