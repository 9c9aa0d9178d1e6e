"""A long session is opened and archived a page at a time: what is held is its state or a page, not its history."""

import asyncio
import os
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from msgspec import structs

from steptrail.domain.agent.config import AgentSnapshot
from steptrail.domain.agent.events import (
    AgentEvent,
    ContinuationEvaluated,
    EvaluationsRecorded,
    ExecutionStarted,
    InferenceCompleted,
    InferenceStarted,
    SessionStarted,
    StepCompleted,
    StepStarted,
    ToolExecutionCompleted,
    ToolExecutionStarted,
)
from steptrail.domain.agent.machine import AGENT
from steptrail.domain.continuation.decision import ContinuationDecision
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
from steptrail.domain.inference import FinishReason, ModelInfo, ModelReply
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, StreamHead
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.domain.tools import ToolEffect
from steptrail.domain.usage import Usage
from steptrail.domain.version import VERSION
from steptrail.infrastructure.store.opening import open_store
from steptrail.interfaces.python.archive import ArchiveFile, ArchiveFolder, file_of
from steptrail.runtime.agent.kind import KIND
from steptrail.runtime.kernel.channel import take_seat
from steptrail.runtime.kernel.history import pages, records_between
from steptrail.runtime.kernel.journal import fold_stream
from steptrail.runtime.kernel.snapshots import Snapshots

IS_NIGHT = os.environ.get("STEPTRAIL_NIGHTLY") == "1"
EVENTS, LITTLE_MORE = (100_000, 1.2) if IS_NIGHT else (20_000, 2.0)
"""What is held beside the state is a page, whose share is smaller in a longer session.

The whole of the shorter session would be five times its state.
"""
STREAM = "agent:long"
STEPS, LARGE = 1_000, 40_000


def history() -> Iterator[AgentEvent]:
    """Yield a session that never ends: a model call, a tool call and some votes, step after step."""
    model = ModelInfo(driver="scripted", model="scripted")
    yield SessionStarted(name="long")
    yield ExecutionStarted(
        execution_id="e1",
        ordinal=1,
        segment=1,
        worker="w",
        input=Message.user("go"),
        agent=AgentSnapshot(name="long", model=model, fingerprint="f"),
        by="user",
        library=VERSION,
    )
    votes = tuple(
        ContinuationEvaluation(
            criterion_class=f"steptrail:Criterion{i}",
            decision=ContinuationDecision.ALLOW,
            context={"used": i, "limit": 1000, "seconds": 0.25},
        )
        for i in range(2)
    )
    step = 0
    while True:
        step += 1
        yield EvaluationsRecorded(votes=votes)
        yield ContinuationEvaluated(
            step=step - 1, decision=ContinuationDecision.REQUEST, should_continue=True, resolved_by="steptrail:Work"
        )
        yield StepStarted(number=step)
        yield InferenceStarted(step=step, model="scripted", request_digest="0" * 64, message_count=2 * step)
        call = ToolCallPart(id=f"call-{step}", name="look", arguments={"what": f"number {step}"})
        yield InferenceCompleted(
            reply=ModelReply(parts=(call,), finish_reason=FinishReason.TOOL_CALLS, usage=Usage()), duration_seconds=1.0
        )
        yield ToolExecutionStarted(
            position=0,
            call_id=call.id,
            tool="look",
            effect_id=f"e1:{step}:0",
            effect=ToolEffect.READ,
            arguments_digest="0" * 64,
        )
        yield ToolExecutionCompleted(position=0, result=f"found {step}", duration_seconds=0.5)
        yield StepCompleted(number=step, duration_seconds=1.5)


@pytest.fixture
async def url(store_url: str) -> str:
    """A store with the session in it."""

    store = open_store(store_url, durability="normal")
    head, events = EMPTY_STREAM, history()
    while head.version < EVENTS:
        page = tuple((head.version + i, event) for i, event in enumerate(islice(events, 5_000)))
        head = await store.append(STREAM, head, Commit(CommitHead(commit_id=f"c{head.version}", actor="me"), page))
    await store.close()
    return store_url


async def test_an_archive_is_written_and_proved_without_the_session_in_memory(tmp_path: Path) -> None:
    store, head = open_store(f"sqlite:///{tmp_path / 'runs.db'}", durability="normal"), EMPTY_STREAM
    large = (
        structs.replace(event, result=f"{number} {'x' * LARGE}") if isinstance(event, ToolExecutionCompleted) else event
        for number, event in enumerate(history())
    )
    while head.version < 8 * STEPS:
        page = tuple((head.version + i, event) for i, event in enumerate(islice(large, 400)))
        head = await store.append(STREAM, head, Commit(CommitHead(commit_id=f"c{head.version}", actor="me"), page))
    tracemalloc.start()
    try:
        await ArchiveFolder(store, tmp_path).keep([STREAM])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert ArchiveFile.proved(file_of(tmp_path, STREAM)).events == head.version
    assert peak < STEPS * LARGE / 2
    await store.close()


async def test_what_is_read_at_once_is_few_records_when_they_are_large(tmp_path: Path) -> None:
    store, head, count, size = (
        open_store(f"sqlite:///{tmp_path / 'runs.db'}", durability="normal"),
        EMPTY_STREAM,
        80,
        1 << 20,
    )
    for number in range(count):
        event = ToolExecutionCompleted(position=0, result=f"{number} {'x' * size}", duration_seconds=0.5)
        head = await store.append(
            STREAM, head, Commit(CommitHead(commit_id=f"c{number}", actor="me"), ((number, event),))
        )
    versions, ends = list[int](), list[StreamHead]()
    tracemalloc.start()
    try:
        async for entry in store.log():
            versions.append(entry.record.version)
        async for records, end in pages(AGENT, store, STREAM, after=EMPTY_STREAM):
            versions += [record.version for record in records]
            ends.append(end)
        follower = take_seat(store, STREAM, KIND, after=0, wake=lambda: None, fail=lambda _: None)
        while page := await follower.read():
            versions += [record.version for record in page]
        follower.leave()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert versions == [*range(1, count + 1)] * 3
    between = await records_between(store, STREAM, 1, count - 1)
    assert [record.version for record in between] == [*range(2, count)]
    assert ends[-1] == head
    assert peak < count * size / 2
    await store.close()


async def opened(address: str) -> tuple[int, int]:
    """Open the session, and return how many bytes its state takes and how many were held at most on the way."""
    store = open_store(address)
    await store.version(STREAM)
    tracemalloc.start()
    try:
        state, head = await fold_stream(AGENT, store, STREAM)
        await asyncio.sleep(0)  # what the last answer was carried in is let go of
        size, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (head.version, state.version) == (EVENTS, EVENTS)
    await store.close()
    return size, peak


async def keep_a_snapshot(address: str) -> None:
    store = open_store(address)
    state, head = await fold_stream(AGENT, store, STREAM)
    await Snapshots(AGENT, store, STREAM).keep(state, head)
    assert await store.snapshot(STREAM) is not None
    await store.close()


async def test_opening_holds_little_more_than_the_state_with_and_without_a_snapshot(url: str) -> None:
    size, peak = await opened(url)
    assert peak < LITTLE_MORE * size
    await keep_a_snapshot(url)
    unread, peak = await opened(url)
    # Messages and steps are lines until somebody looks at them.
    assert unread < size * 2 / 3
    # For a moment the text of the snapshot stands beside its lines.
    assert peak < 2 * size
