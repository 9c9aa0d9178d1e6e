"""What is in each message, in both forms, and what is not."""

import re
from typing import Any

import msgspec
import orjson
import pytest
from msgspec import structs

from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.hooks.state import HookState
from steptrail.domain.hooks.types import HookType
from steptrail.domain.live import ReplyDelta
from steptrail.domain.shared.run import ExecutionStatus, SegmentEnd, StopReason
from steptrail.projections.broadcast.config import BroadcastConfig
from steptrail.projections.broadcast.envelope import BroadcastEnvelope, id_of, place_of
from steptrail.projections.broadcast.fold import EnvelopeFold, envelopes_of
from steptrail.projections.lifecycle import RunEvent
from steptrail.projections.lifecycle.executions import (
    AgentExecutionCompleted,
    AgentExecutionEnded,
    AgentExecutionFailed,
    AgentExecutionPaused,
    AgentExecutionResumed,
    AgentExecutionWaitEnded,
    AgentExecutionWaiting,
    MessagesAdded,
)
from steptrail.projections.lifecycle.steps import AgentStepStarted
from steptrail.projections.lifecycle.tools import CallBlocked, CallCancelled
from steptrail.projections.ui.conversation import ui_conversation
from steptrail.testing import Reply, call
from tests.runner.kit import NOON, agent_of, hook, trail_of, vote
from tests.unit.broadcast.samples import ANSWER, SECRET, data_of, messages, of_type
from tests.unit.lifecycle.test_texts import ENDED, WHOSE

CONFIGS = {
    "minimal": BroadcastConfig.minimal(),
    "standard": BroadcastConfig.standard(),
    "debug": BroadcastConfig.debug(),
    "without statuses": BroadcastConfig(auto_status_tracking=False),
}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def test_the_settings_are_those_that_others_know() -> None:
    standard, minimal, debug = BroadcastConfig.standard(), BroadcastConfig.minimal(), BroadcastConfig.debug()
    assert standard == BroadcastConfig()
    assert (standard.include_stream_chunks, standard.auto_status_tracking, standard.max_arg_length) == (True, True, 100)
    assert (standard.include_continuation_trace, standard.include_tool_args) == (False, False)
    assert minimal == structs.replace(standard, include_stream_chunks=False)
    shown = {"include_continuation_trace": True, "include_tool_args": True, "max_arg_length": 500}
    assert debug == structs.replace(standard, **shown)


async def test_a_run_is_told_from_its_first_step_to_its_last_status() -> None:
    assert [each.type.removeprefix("agent.") for each in await messages(BroadcastConfig.debug())] == [
        "status",
        "message",
        "continuation",
        "step.started",
        *["tool.started"] * 3,
        *["tool.completed"] * 3,
        "step.completed",
        "continuation",
        "step.started",
        "step.completed",
        "continuation",
        "status",
    ]


async def test_the_statuses_of_a_run() -> None:
    assert await of_type("agent.status") == [
        {
            "status": "in_progress",
            "previous_status": "pending",
            "stop_reason": None,
            "answered": None,
            "error_message": None,
            "last_response": None,
        },
        {
            "status": "completed",
            "previous_status": "in_progress",
            "stop_reason": "completed",
            "answered": True,
            "error_message": None,
            "last_response": ANSWER,
        },
    ]


async def test_what_is_said_is_told_of_and_not_repeated() -> None:
    assert await of_type("agent.message") == [{"count": 1, "source": "input"}]
    added = MessagesAdded(**WHOSE, at=NOON, count=2, source=MessageSource.HOOK)
    (told,) = EnvelopeFold(BroadcastConfig(auto_status_tracking=False)).apply(added)
    assert (told.type, data_of(told)) == ("agent.message", {"count": 2, "source": "hook"})


async def test_a_step_that_starts() -> None:
    assert await of_type("agent.step.started") == [
        {"step_number": 1, "message_count": 1, "available_tools": 4},
        {"step_number": 2, "message_count": 5, "available_tools": 4},
    ]


async def test_a_step_that_is_completed() -> None:
    first, second = await of_type("agent.step.completed")
    usage = {"input": 10, "output": 5, "cacheWrite": 0, "cacheRead": 0, "reasoning": 0, "total": 15}
    assert first == {
        "step_number": 1,
        "has_tool_calls": True,
        "has_text": False,
        "errors": 2,
        "finish_reason": "tool_calls",
        "usage": usage,
        "duration_ms": 0,
    }
    assert (second["has_tool_calls"], second["has_text"]) == (False, True)
    assert (second["errors"], second["finish_reason"]) == (0, "stop")


async def test_a_tool_that_starts_is_told_with_a_summary_of_its_arguments() -> None:
    first = (await of_type("agent.tool.started"))[0]
    assert first == {
        "tool": "look",
        "tool_name": "look",
        "tool_call_id": "call-1",
        "message_id": "s:1:1:0",
        "args_summary": f"where: 'attic', token: '{SECRET}'",
    }


async def test_a_tool_that_starts_is_told_with_its_arguments_or_with_neither() -> None:
    whole = (await of_type("agent.tool.started", BroadcastConfig(include_tool_args=True, max_arg_length=3)))[0]
    assert whole["args"] == {"where": "att...", "token": "hun..."}
    assert "args_summary" not in whole
    silent = (await of_type("agent.tool.started", BroadcastConfig(include_tool_summaries=False)))[0]
    assert silent["args_summary"] is None


async def test_a_tool_that_is_completed() -> None:
    # Calls that only read run side by side, and end as they end.
    made = await of_type("agent.tool.completed")
    good, bad, refused = sorted(made, key=lambda each: str(each["tool_call_id"]))
    assert good == {
        "tool": "look",
        "tool_name": "look",
        "tool_call_id": "call-1",
        "message_id": "s:1:1:0",
        "success": True,
        "error": None,
        "duration_ms": 0,
        "result_summary": f'{{"found":"attic {SECRET}"}}',
    }
    assert (bad["success"], bad["error"], bad["result_summary"]) == (False, f"no {SECRET}", None)
    # What is said of refused arguments quotes them.
    assert (refused["success"], refused["error"]) == (False, "validation")


async def test_a_decision_is_told_with_every_vote_and_no_context() -> None:
    decisions = await of_type("agent.continuation", BroadcastConfig.debug())
    last = decisions[-1]
    evaluations = last.pop("evaluations")
    assert last == {
        "step_number": 2,
        "should_continue": False,
        "stop_reason": "completed",
        "resolved_by": "aggregate",
        "resolved_by_path": "aggregate",
    }
    assert isinstance(evaluations, list)
    assert evaluations
    assert all(isinstance(each, dict) and set(each) == {"criterion", "decision", "reason"} for each in evaluations)


@every_config
async def test_every_body_says_its_id_and_the_one_before(config: BroadcastConfig) -> None:
    made = await messages(config)
    assert [each.body["sequence"] for each in made] == [each.id for each in made]
    assert [each.body["previous"] for each in made] == [None, *(each.id for each in made[:-1])]
    places = [place_of(each.id) for each in made]
    assert places == sorted(set(places))
    assert [each.version for each in made] == [version for version, _ in places]


@every_config
async def test_an_id_means_the_same_under_every_configuration(config: BroadcastConfig) -> None:
    widest = {each.id: (each.type, each.at) for each in await messages(BroadcastConfig.debug())}
    assert {each.id: (each.type, each.at) for each in await messages(config)}.items() <= widest.items()


async def test_the_first_form_has_four_keys_of_its_own() -> None:
    for each in await messages():
        assert [*each.body] == ["event", "timestamp", "agent_id", "data", "sequence", "previous"]
        assert (each.channel, each.body["agent_id"], each.body["event"]) == ("agent.s", "s", each.type)
        assert re.fullmatch(r"2027-01-15T08:00:00\.\d{3}Z", str(each.body["timestamp"]))


async def test_the_other_form_holds_the_same_payloads() -> None:
    ours, theirs = await messages(BroadcastConfig.debug()), await messages(BroadcastConfig.debug(form="reverb"))
    keys = ["type", "session_id", "execution_id", "timestamp", "payload", "agent_id", "sequence", "previous"]
    for one, other in zip(ours, theirs, strict=True):
        assert [*other.body] == keys
        assert (other.body["type"], other.body["session_id"], other.body["execution_id"]) == (one.type, "s", "s:1")
        assert (other.body["payload"], other.body["timestamp"]) == (one.body["data"], one.body["timestamp"])
        assert (other.id, other.channel) == (one.id, one.channel)


@pytest.mark.parametrize("form", ["epic", "reverb"])
@pytest.mark.parametrize("trace", [False, True])
async def test_no_byte_of_an_argument_or_a_result_is_sent_where_neither_is_wanted(form: str, trace: bool) -> None:
    silent = msgspec.convert(
        {"include_tool_summaries": False, "include_continuation_trace": trace, "form": form}, BroadcastConfig
    )
    sent = b"\n".join(each.to_json() for each in await messages(silent))
    assert SECRET.encode() not in sent
    assert b"attic" not in sent
    assert SECRET.encode() in b"".join(each.to_json() for each in await messages())


async def test_a_body_that_is_too_large_can_be_sent_by_reference() -> None:
    whole = (await messages())[3]
    instead = whole.by_reference()
    assert orjson.loads(instead.to_json()) == {
        "reference": {"agent_id": "s", "version": whole.version, "id": whole.id},
        "sequence": whole.id,
        "previous": whole.body["previous"],
    }
    assert (instead.id, instead.channel) == (whole.id, whole.channel)
    assert whole.omitted("too large").body["omitted"] == {"type": "agent.tool.started", "reason": "too large"}


def delta(text: str = "", *, is_final: bool = False, step: int = 2, kind: str = "text") -> ReplyDelta:
    assert kind in ("text", "reasoning")
    return ReplyDelta(
        session_id="s",
        execution_id="s:1",
        step=step,
        attempt=1,
        text=text,
        is_final=is_final,
        kind="text" if kind == "text" else "reasoning",
    )


def chunks_of(fold: EnvelopeFold, *deltas: ReplyDelta) -> list[BroadcastEnvelope]:
    return [made for each in deltas for made in fold.delta(each, at=1_800_000_000_123_456)]


def test_text_is_told_in_chunks_that_are_counted_and_completed() -> None:
    fold = EnvelopeFold(BroadcastConfig())
    made = chunks_of(fold, delta("0"), delta(""), delta(" "), delta("hm", kind="reasoning"), delta(is_final=True))
    ids = {"message_id": "s:1:2", "step_number": 2}
    assert [data_of(each) for each in made] == [
        {**ids, "content": "0", "is_complete": False, "chunk_index": 0, "attempt": 1},
        {**ids, "content": " ", "is_complete": False, "chunk_index": 1, "attempt": 1},
        {**ids, "content": "", "is_complete": True, "chunk_index": 2, "attempt": 1},
    ]
    assert all(each.is_ephemeral and each.type == "agent.stream.chunk" for each in made)
    assert made[0].body["timestamp"] == "2027-01-15T08:00:00.123Z"
    assert chunks_of(EnvelopeFold(BroadcastConfig.minimal()), delta("0")) == []


def test_a_chunk_has_the_id_of_the_last_message_that_is_stored() -> None:
    fold = EnvelopeFold(BroadcastConfig())
    (first,) = chunks_of(fold, delta("a"))
    assert (first.id, first.body["previous"]) == ("0.0", None)
    (told,) = fold.apply(ended())
    (chunk,) = chunks_of(fold, delta("a"))
    assert (chunk.id, chunk.body["sequence"], chunk.body["previous"]) == (told.id, told.id, told.id)
    assert data_of(chunk)["chunk_index"] == 0


def ended(kind: type[AgentExecutionEnded] = AgentExecutionCompleted, **said: Any) -> AgentExecutionEnded:
    status = said.get("status", ExecutionStatus.COMPLETED)
    return kind(**{**WHOSE, "session_status": status}, at=NOON, **{**ENDED, **said})


@pytest.mark.parametrize("reason", StopReason)
@pytest.mark.parametrize("status", [ExecutionStatus.COMPLETED, ExecutionStatus.FAILED])
def test_the_last_status_is_that_of_the_session_and_has_its_stop_reason(
    reason: StopReason, status: ExecutionStatus
) -> None:
    (made,) = EnvelopeFold(BroadcastConfig()).apply(ended(status=status, stop_reason=reason))
    assert (data_of(made)["status"], data_of(made)["stop_reason"]) == (status.value, reason.value)


def test_a_run_that_rests_is_paused_or_waiting_until_it_goes_on() -> None:
    fold = EnvelopeFold(BroadcastConfig())

    def whose(status: ExecutionStatus) -> dict[str, Any]:
        return {**WHOSE, "at": NOON, "session_status": status}

    at_work = whose(ExecutionStatus.IN_PROGRESS)
    events: list[RunEvent] = [
        AgentStepStarted(**at_work, step=1, messages=1, tools=0),
        AgentExecutionPaused(**whose(ExecutionStatus.PAUSED), by="ana", reason=None),
        AgentExecutionResumed(**at_work, ended_by=SegmentEnd.PAUSE),
        AgentExecutionWaiting(**whose(ExecutionStatus.WAITING), kind="retry", until=NOON, tool=None, tool_call_id=None),
        AgentExecutionWaitEnded(**at_work, reason="due", by=None),
    ]
    made = [each for event in events for each in fold.apply(event) if each.type == "agent.status"]
    statuses = ["in_progress", "paused", "in_progress", "waiting", "in_progress"]
    assert [data_of(each)["status"] for each in made] == statuses


def test_the_last_status_says_what_went_wrong() -> None:
    failed = ended(AgentExecutionFailed, status=ExecutionStatus.FAILED, error="no tea", error_type="tool")
    told = {
        summaries: data_of(EnvelopeFold(BroadcastConfig(include_tool_summaries=summaries)).apply(failed)[0])
        for summaries in (True, False)
    }
    assert (told[True]["status"], told[True]["error_message"], told[False]["error_message"]) == (
        "failed",
        "no tea",
        "tool",
    )


OF_A_CALL: dict[str, Any] = {**WHOSE, "at": NOON, "step": 1, "tool": "pay", "tool_call_id": "c", "message_id": "1.0"}


@pytest.mark.parametrize(
    ("event", "word"),
    [
        (CallBlocked(**OF_A_CALL, args={}, reason=SECRET, hook="h"), "blocked"),
        (CallCancelled(**OF_A_CALL, reason=SECRET), "cancelled"),
    ],
    ids=["blocked", "cancelled"],
)
def test_why_a_call_did_not_run_is_a_summary_and_may_be_left_out(event: RunEvent, word: str) -> None:
    def told(*, summaries: bool) -> object:
        made = EnvelopeFold(BroadcastConfig(include_tool_summaries=summaries)).apply(event)
        (ended,) = [each for each in made if each.type == "agent.tool.completed"]
        return data_of(ended)["error"]

    assert (told(summaries=True), told(summaries=False)) == (f"{word}: {SECRET}", word)


def test_an_answer_is_cut_in_the_last_status_and_left_out_with_the_chunks() -> None:
    long = ended(answer="x" * 1001)
    (whole,), (none,) = (EnvelopeFold(BroadcastConfig(include_stream_chunks=on)).apply(long) for on in (True, False))
    assert (data_of(whole)["last_response"], data_of(none)["last_response"]) == ("x" * 1000 + "...", None)


async def test_a_run_that_a_hook_sends_back_to_work_is_told_to_have_ended_once() -> None:
    asked = iter([True, False])

    def more(state: HookState) -> HookState:
        return state.with_evaluation(vote(ContinuationDecision.REQUEST, "more")) if next(asked) else state

    async with trail_of() as trail:
        agent = agent_of(["draft", "final"], (HookType.STOP, hook("more", more))).build()
        result = await trail.run(agent, "go", session="s")
        assert result.output == "final"
        told = envelopes_of("s", await trail.session("s").history())
    assert [data_of(each)["status"] for each in told if each.type == "agent.status"] == ["in_progress", "completed"]


async def test_two_calls_of_one_id_are_told_apart_by_the_ids_of_their_messages() -> None:
    async with trail_of() as trail:
        twice: list[Reply] = [call("add", a=1, b=2), call("add", a=3, b=4), "7"]
        await trail.run(agent_of(twice).build(), "add", session="s")
        shown = ui_conversation(await trail.session("s").state())
        ids = [each.id for each in shown.messages if each.role == "tool"]
        told = [each for each in envelopes_of("s", await trail.session("s").history()) if "tool." in each.type]
        assert [data_of(each)["message_id"] for each in told] == [ids[0], ids[0], ids[1], ids[1]]
    assert [data_of(each)["tool_call_id"] for each in told] == ["call-1"] * 4


def test_an_id_that_a_client_sent_is_read_or_refused() -> None:
    assert place_of("12.2") == (12, 2)
    assert id_of((12, 2)) == "12.2"
    for nonsense in ("", "12", "12.", "-1.2", "1.2.3", "01.2", "1e3.1", "\u0661.2", "9" * 400 + ".1"):
        with pytest.raises(ConfigurationError):
            place_of(nonsense)
