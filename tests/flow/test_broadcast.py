"""Messages about runs of workflows: the same from any place in the log, and between them text of nodes as it comes."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.broadcasting import (
    BroadcastConfig,
    BroadcastEnvelope,
    Broadcaster,
    EnvelopeFold,
    cloud_event,
    envelopes_of,
)
from steptrail.domain.live import NodeDelta
from steptrail.infrastructure.broadcast.envelope_reader import fold_at
from steptrail.lifecycle import FlowAttemptEnded, FlowExecutionEnded
from steptrail.testing import ScriptedModel
from steptrail.workflow import Workflow, flow_lifecycle_events
from tests.flow.kit import run_to_rest
from tests.flow.test_crashes import diamond, failing
from tests.integration.broadcast.transports import KeepingTransport
from tests.runner.kit import HandClock, trail_of

WHOLE = BroadcastConfig(include_stream_chunks=False)


async def of_the_log(trail: Steptrail, config: BroadcastConfig = WHOLE, name: str = "f") -> list[BroadcastEnvelope]:
    fold = EnvelopeFold(config)
    told = flow_lifecycle_events(name, await trail.flow(name).history())
    return [made for event in told for made in fold.apply(event)]


async def test_a_broadcaster_tells_what_the_log_tells_each_once_and_in_order() -> None:
    transport, clock = KeepingTransport(), HandClock()
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, diamond(failing()))
        async with Broadcaster(trail, transport, config=WHOLE) as broadcaster:
            await broadcaster.caught_up()
        whole = await of_the_log(trail)
        assert list(envelopes_of("flow:f", await trail.flow("f").history(), WHOLE)) == whole
        # A reader that begins anywhere goes on with the same messages, under the same ids.
        records = await trail.flow("f").history()
        for cut in range(len(records)):
            folds = await fold_at(trail.store, "flow:f", cut, WHOLE)
            assert folds is not None
            rest = [made for record in records[cut:] for made in folds.apply(record)]
            assert rest == [each for each in whole if each.version > cut]
    assert transport.sent == whole
    assert len({each.id for each in whole}) == len(whole)
    assert [each.body["previous"] for each in whole] == [None, *(each.id for each in whole[:-1])]
    assert {each.channel for each in whole} == {"flow.f"}
    assert whole[-1].body["data"] == {
        "status": "completed",
        "previous_status": "in_progress",
        "stop_reason": "completed",
        "errors": 1,
        "error_message": None,
        "failed_node": None,
    }


async def test_messages_about_agents_are_those_that_they_were_beside_workflows() -> None:
    async def sent(*, with_flow: bool) -> list[BroadcastEnvelope]:
        transport = KeepingTransport()
        async with trail_of(HandClock()) as trail:
            if with_flow:
                await trail.run(Workflow("w").noop("a").build(), session="x")
            agent = AgentBuilder("a").with_model(ScriptedModel(["done"])).build()
            await trail.run(agent, "go", session="x")
            async with Broadcaster(trail, transport, config=WHOLE) as broadcaster:
                await broadcaster.caught_up()
        return [each for each in transport.sent if each.kind == "agent"]

    assert await sent(with_flow=True) == await sent(with_flow=False)


async def test_without_summaries_no_word_of_a_person_a_model_or_an_error_leaves() -> None:
    def fail(_: object) -> None:
        raise ValueError("s3cret")

    flow = (
        Workflow("w")
        .function("fail", fail, on_error="continue")
        .human("ask", type="choice", prompt="s3cret {{ input }}?", options=("s3cret", "b"))
        .chain("fail", "ask")
        .build()
    )
    silent = BroadcastConfig(include_tool_summaries=False, include_stream_chunks=False)
    async with trail_of() as trail:
        await trail.run(flow, "s3cret", session="f")
        await trail.flow("f").answer("ask", by="ana", choice="s3cret", notes="s3cret")
        await trail.flow("f").resume(flow)
        said, shown = await of_the_log(trail, silent), await of_the_log(trail)
    assert b"s3cret" not in b"".join(each.to_json() for each in said)
    assert b"s3cret" in b"".join(each.to_json() for each in shown)
    assert [each.id for each in said] == [each.id for each in shown]


async def test_text_of_nodes_that_write_at_once_comes_while_their_tries_are_open() -> None:
    transport = KeepingTransport()
    a, b = (ScriptedModel([" ".join(name * 20)]) for name in "ab")
    flow = Workflow("w").noop("begin").llm("a", a, prompt="go").llm("b", b, prompt="go").edge("begin", "a", "b").build()
    async with (
        asyncio.timeout(60),
        Steptrail.open("sqlite:///:memory:") as trail,
        Broadcaster(trail, transport) as broadcaster,
    ):
        await trail.run(flow, session="f")
        await broadcaster.caught_up()
    opened = set[Any]()
    for each in transport.sent:
        data: Any = each.body["data"]
        if each.type == "flow.attempt.started":
            opened.add(data["node"])
        elif each.type == "flow.attempt.completed":
            opened.discard(data["node"])
        elif each.type == "flow.stream.chunk":
            assert each.is_ephemeral
            assert data["node"] in opened


@pytest.mark.parametrize(
    ("attempt", "moment"), [(1, "late"), (2, "now"), (3, "early")], ids=["the one before", "the open one", "the next"]
)
async def test_a_piece_belongs_to_the_try_that_is_open(attempt: int, moment: str) -> None:
    world, clock = failing(), HandClock()
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, diamond(world))
        fold = EnvelopeFold(WHOLE)
        for event in flow_lifecycle_events("f", await trail.flow("f").history()):
            if isinstance(event, FlowAttemptEnded) and (event.node, event.attempt) == ("left", 2):
                break
            fold.apply(event)
    piece = NodeDelta(session_id="f", execution_id="f:1", node="left", visit=1, attempt=attempt, text="x")
    assert fold.moment_of(piece) == moment


@pytest.mark.parametrize(("is_whole", "moment"), [(True, "early"), (False, "now")])
async def test_who_did_not_see_a_run_begin_takes_a_try_it_knows_nothing_of_for_open_in_that_run_alone(
    is_whole: bool, moment: str
) -> None:
    async with trail_of() as trail:
        await trail.run(Workflow("w").noop("a").noop("b").edge("a", "b").build(), session="f")
        told = flow_lifecycle_events("f", await trail.flow("f").history())
    told += tuple(replace(event, execution_id="f:2") for event in told)
    fold, moments = EnvelopeFold(WHOLE, is_whole=is_whole), dict[str, set[str]]()
    for event in told:
        piece = NodeDelta(session_id="f", execution_id=event.execution_id, node="c", visit=1, attempt=1, text="x")
        if fold.apply(event) and not isinstance(event, FlowExecutionEnded):
            moments.setdefault(event.execution_id, set()).add(fold.moment_of(piece))
    assert moments == {"f:1": {moment}, "f:2": {"early"}}


async def test_a_cloud_event_names_the_run_and_the_node() -> None:
    async with trail_of() as trail:
        await trail.run(Workflow("w").noop("a").build(), session="f")
        _, started, *_ = [cloud_event(each) for each in await of_the_log(trail)]
    assert (started["source"], started["type"], started["subject"]) == (
        "/flows/f",
        "dev.steptrail.flow.node.started.v1",
        "a",
    )
