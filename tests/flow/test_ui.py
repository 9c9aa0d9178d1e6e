"""What a front end shows of a run of a workflow, and what it keeps to itself unless it is told to show it."""

from typing import Any, cast

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.broadcasting import BroadcastEnvelope
from steptrail.lifecycle import FlowExecutionFailed, FlowExecutionStarted, FlowQuestionAnswered
from steptrail.projections.rendering import owner_text
from steptrail.tools import OnUnknown
from steptrail.ui import UiConfig, UiFlowRun, ui_flow
from steptrail.workflow import RunOptions, Workflow, flow_lifecycle_events
from tests.flow.kit import LEAVES, World, run_to_rest
from tests.flow.test_broadcast import of_the_log
from tests.runner.kit import Crash, HandClock, again_on, crash_at, trail_of

ALL = UiConfig(include_tool_args=True)
LITTLE = UiConfig(include_tool_results=False, include_tool_errors=False)


async def shown(trail: Steptrail, config: UiConfig = LITTLE) -> UiFlowRun:
    return ui_flow("f", await trail.flow("f").history(), config)


def test_a_run_that_nobody_has_begun_is_empty() -> None:
    empty = ui_flow("f", ())
    assert (empty.status, empty.nodes, empty.questions, empty.errors, empty.version) == ("pending", (), (), (), 0)


async def test_a_question_is_shown_with_its_words_only_if_results_are() -> None:
    flow = (
        Workflow("publish", options=LEAVES)
        .function("doc", lambda envelope: {"title": envelope.input}, output="doc")
        .human("pick", type="choice", prompt="Which of {{ input }}?", options=("a", "b"), show=("doc",), expires=60.0)
        .chain("doc", "pick")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, "tea", session="f")
        run = await shown(trail)
        (question,) = run.questions
        assert (run.status, run.output, run.stop_reason) == ("waiting", None, None)
        assert (question.kind, question.node, question.type, question.prompt) == ("human", "pick", "choice", None)
        assert (question.options, question.data, question.expires_at is None) == (None, None, False)
        (told,) = (await shown(trail, ALL)).questions
        assert (told.prompt, told.options, told.data) == ("Which of tea?", ("a", "b"), {"doc": {"title": "tea"}})
        assert [(node.id, node.mark, node.ran) for node in run.nodes] == [("doc", "ran", 1), ("pick", "waiting", 0)]

        await trail.flow("f").answer("pick", choice="b", by="ana")
        await trail.flow("f").resume(flow)
        assert (await shown(trail)).output is None
        assert (await shown(trail, ALL)).output is not None


async def test_errors_are_shown_with_their_words_only_if_errors_are() -> None:
    world, clock = World(), HandClock()
    world.breaks = {"a": ConnectionError("db.internal is away"), "b": ValueError("no")}
    act = world.tool()
    flow = (
        Workflow("t")
        .tool("first", act, args={"name": "a"}, retry=1, on_error="continue")
        .tool("last", act, args={"name": "b"}, retry=1)
        .chain("first", "last")
        .build()
    )
    async with trail_of(clock) as trail:
        await run_to_rest(trail, clock, flow)
        run, whole = await shown(trail), await shown(trail, ALL)
        assert [(each.node, each.message) for each in run.errors] == [("first", "The node failed.")]
        assert run.error_message == "last: The node failed."
        assert "db.internal is away" not in str(run.to_dict())
        assert "db.internal is away" in whole.errors[0].message
        assert (whole.error_message or "").startswith("last: ")
        assert "no" in (whole.error_message or "")

        world.breaks = {}
        await trail.flow("f").retry(flow)
        assert (await shown(trail)).error_message is None
        told_of = flow_lifecycle_events("f", await trail.flow("f").history())
        assert [each.is_retry for each in told_of if isinstance(each, FlowExecutionStarted)] == [False, True]


async def test_a_limit_is_named_with_what_was_and_what_may_be() -> None:
    flow = Workflow("t").noop("a").noop("b").edge("a", "b").edge("b", "a", loop=True).build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=RunOptions(max_visits=3))
        assert (await shown(trail)).error_message == "max_visits is 3, and it was 4"
        told_of = flow_lifecycle_events("f", await trail.flow("f").history())
        (failed,) = [each for each in told_of if isinstance(each, FlowExecutionFailed)]
        assert (failed.error, failed.node) == ("max_visits is 3, and it was 4", None)


@pytest.mark.parametrize("outcome", ["completed", "failed"])
async def test_what_a_person_has_settled_is_an_answer_and_no_end_of_a_try(outcome: str) -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .tool("work", world.tool(ToolEffect.UNSAFE, OnUnknown.PARK), args={"name": "work"}, retry=1)
        .build()
    )
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await run_to_rest(again_on(trail, clock, crash_at("after-node")), clock, flow)
        await run_to_rest(trail, clock, flow)
        (question,) = (await shown(trail)).questions
        assert (question.kind, question.node) == ("unknown_outcome", "work")
        settled = trail.flow("f")
        if outcome == "completed":
            await settled.settle("f:1:work:1", "completed", by="ana", output="done")
        else:
            await settled.settle("f:1:work:1", "failed", by="ana", message="the bank says no")
        await settled.resume(flow)
        assert (await shown(trail)).questions == ()
        told_of = flow_lifecycle_events("f", await settled.history())
        answers = [each for each in told_of if isinstance(each, FlowQuestionAnswered)]
        assert [(each.question_id, each.by) for each in answers] == [("f:1:work:1", "ana")]


def bodies(envelopes: list[BroadcastEnvelope]) -> list[tuple[str, dict[str, Any]]]:
    return [(str(each.body["event"]), cast("dict[str, Any]", each.body["data"])) for each in envelopes]


def test_whether_a_process_runs_something_is_said_also_when_nobody_can_tell() -> None:
    assert [owner_text(each).split(" ")[0] for each in (None, True, False)] == ["unknown:", "a", "no"]


async def test_a_skipped_node_a_recorded_failure_and_one_that_was_given_up_are_told_of() -> None:
    world, clock = World(), HandClock()
    world.breaks = {"a": ValueError("no"), "b": ValueError("never")}
    act = world.tool()
    flow = (
        Workflow("t", options=RunOptions(pause_before=("held",), longest_wait=0.0))
        .noop("held")
        .tool("first", act, args={"name": "a"}, retry=1, on_error="continue")
        .human("ask", expires=60.0)
        .tool("last", act, args={"name": "b"}, retry=1)
        .chain("held", "first", "last")
        .edge("held", "ask")
        .build()
    )
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").step("held", "skip", by="ana")
        await trail.flow("f").resume(flow)
        told = bodies(await of_the_log(trail))
    names = [name for name, _ in told]
    assert [name for name in names if name == "flow.node.skipped"] == ["flow.node.skipped"]
    failed = [data for name, data in told if name == "flow.node.failed"]
    assert [(data["node"], data["is_recorded"]) for data in failed] == [("first", True), ("last", False)]
    assert [data["node"] for name, data in told if name == "flow.node.cancelled"] == ["ask"]


@pytest.mark.parametrize("answer", ["approved", "denied", "expired"])
async def test_an_approval_is_told_of_with_its_answer(answer: str) -> None:
    clock = HandClock()

    @tool(effect=ToolEffect.UNSAFE, approval=True)
    def wire() -> str:
        """Wire money."""
        return "done"

    flow = Workflow("t", options=LEAVES).tool("wire", wire, retry=1).build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        (asked,) = (await shown(trail)).questions
        assert (asked.kind, asked.tool) == ("approval", "wire")
        if answer == "approved":
            await trail.flow("f").approve(asked.id, by="ana")
        elif answer == "denied":
            await trail.flow("f").deny(asked.id, by="ana", reason="no")
        else:
            clock.advance(365 * 86_400.0)
        await trail.flow("f").resume(flow)
        told = flow_lifecycle_events("f", await trail.flow("f").history())
    (answered,) = [each for each in told if isinstance(each, FlowQuestionAnswered)]
    assert (answered.answer, answered.by) == (answer, None if answer == "expired" else "ana")
