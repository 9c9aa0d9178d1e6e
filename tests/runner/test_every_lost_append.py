"""Every kind of event loses an append against somebody's message: what has happened is kept, what was meant is not.

What is expected stands here once more, event by event, because a wrong kind hurts only when two meet: a hold that was
dropped lets a call run that nobody approved.
"""

from typing import get_args

import pytest
from msgspec import structs

from steptrail.domain.agent.events import (
    AgentEvent,
    AnswerAccepted,
    AnswerRejected,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequested,
    ContinuationEvaluated,
    ConversationCompacted,
    EvaluationsRecorded,
    ExecutionFinished,
    ExecutionPaused,
    ExecutionResumed,
    ExecutionStarted,
    HooksRan,
    InferenceCompleted,
    InferenceFailed,
    InferenceInterrupted,
    InferenceRequestAmended,
    InferenceStarted,
    InstructionsResolved,
    MessagesAppended,
    MetadataChanged,
    ModelSwitched,
    PauseLifted,
    PauseRequested,
    RetryScheduled,
    SessionForked,
    SessionScored,
    SessionStarted,
    StepCompleted,
    StepStarted,
    StopRequested,
    ToolCallAmended,
    ToolCallBlocked,
    ToolCallCancelled,
    ToolCallDeferred,
    ToolCallHeld,
    ToolExecutionCompleted,
    ToolExecutionFailed,
    ToolExecutionInterrupted,
    ToolExecutionSettledLate,
    ToolExecutionStarted,
    ToolExecutionSuspended,
    ToolRetryScheduled,
    UsageRecorded,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.agent.events.session import MessageSource
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.messages import Message
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.agent.agent_journal import AgentJournal, agent_records
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.ports import EventStore
from tests.runner.kit import HandClock
from tests.samples import smallest
from tests.unit.agent.story import opened, step, wants

KEPT: list[AgentEvent] = [
    # The world did it.
    smallest(InferenceCompleted),
    structs.replace(smallest(ConversationCompacted), by="gpt-5-mini"),
    smallest(InferenceFailed),
    smallest(InferenceInterrupted),
    smallest(ToolExecutionCompleted),
    smallest(ToolExecutionFailed),
    smallest(ToolExecutionInterrupted),
    smallest(ToolExecutionSuspended),
    # A hook did it.
    smallest(ToolCallHeld),
    smallest(ToolCallBlocked),
    smallest(ToolCallAmended),
    smallest(HooksRan),
    smallest(InferenceRequestAmended),
    smallest(UsageRecorded),
    # A validator did it.
    smallest(AnswerAccepted),
    smallest(AnswerRejected),
    # A function of instructions did it.
    smallest(InstructionsResolved),
    smallest(MetadataChanged),
    smallest(MessagesAppended, source=MessageSource.HOOK),
    smallest(EvaluationsRecorded, hook="h"),
]
DROPPED: list[AgentEvent] = [
    # It was about to happen, or was concluded.
    smallest(SessionStarted),
    smallest(SessionForked),
    smallest(ExecutionStarted),
    smallest(ExecutionResumed),
    smallest(ExecutionPaused),
    smallest(ExecutionFinished),
    smallest(StepStarted),
    smallest(StepCompleted),
    smallest(InferenceStarted),
    smallest(ToolExecutionStarted),
    smallest(ToolCallDeferred),
    smallest(ToolRetryScheduled),
    smallest(ToolCallCancelled),
    smallest(ApprovalRequested),
    smallest(ApprovalExpired),
    smallest(ToolExecutionFailed, expired=True),
    smallest(RetryScheduled),
    smallest(ModelSwitched),
    smallest(ConversationCompacted),
    smallest(WaitStarted),
    smallest(WaitEnded),
    smallest(EvaluationsRecorded),
    smallest(ContinuationEvaluated),
    # Others write it, by a command that is decided anew.
    smallest(MessagesAppended),
    smallest(StopRequested),
    smallest(SessionScored),
    smallest(PauseRequested),
    smallest(PauseLifted),
    smallest(ApprovalGranted),
    smallest(ApprovalDenied),
    smallest(ToolExecutionSettledLate),
]
SAID = MessagesAppended(messages=(Message.user("and be quick"),), by="ana")


def named(event: AgentEvent) -> str:
    return type(event).__name__


def test_every_event_is_expected_to_be_kept_or_dropped() -> None:
    both_ways = {MessagesAppended, EvaluationsRecorded, ToolExecutionFailed, ConversationCompacted}
    kept, dropped = {type(event) for event in KEPT}, {type(event) for event in DROPPED}
    assert kept | dropped == set(get_args(AgentEvent))
    assert kept & dropped == both_ways


@pytest.mark.parametrize("event", KEPT, ids=named)
async def test_what_has_happened_is_stored_once_behind_the_message_that_overtook_it(event: AgentEvent) -> None:
    assert await left_of(event) == [type(event)]


@pytest.mark.parametrize("event", DROPPED, ids=named)
async def test_what_was_meant_is_dropped_when_a_message_overtakes_it(event: AgentEvent) -> None:
    assert await left_of(event) == []


@pytest.mark.parametrize("begins", [smallest(StepStarted), smallest(ContinuationEvaluated)], ids=named)
async def test_what_happened_after_a_decision_or_the_start_of_a_step_goes_with_it(begins: AgentEvent) -> None:
    before, after = smallest(UsageRecorded), smallest(HooksRan)
    assert await left_of(before, begins, after) == [UsageRecorded]


async def left_of(*events: AgentEvent) -> list[type[AgentEvent]]:
    """Return what of `events` is stored when a message is appended before them."""
    store = open_store("sqlite:///:memory:")
    owner = await journal_of(store)
    owner.record(*opened(), *step(), wants("look", "look"))
    owner.claim_segment()
    assert await owner.flush()
    owner.record(*events)
    somebody = await journal_of(store)
    somebody.record(SAID)
    assert await somebody.flush()
    assert not await owner.flush()
    assert await owner.flush()
    records = agent_records((await store.read("agent:s")).records)
    await store.close()
    stored = [record.event for record in records]
    return [type(event) for event in stored[stored.index(SAID) + 1 :]]


async def journal_of(store: EventStore) -> AgentJournal:
    return await AgentJournal.open(AGENT, Environment(store=store, clock=HandClock(), worker="w"), "agent:s")
