"""People in a run: answers and approvals, in time and too late, once and twice at the same moment."""

import asyncio
from functools import partial

import pytest

from steptrail import ToolEffect
from steptrail.domain.flow.effects import Ask
from steptrail.domain.flow.events import HumanRequested
from steptrail.domain.flow.machine import FLOW
from steptrail.domain.json_value import JsonValue
from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.errors import CommandRejected
from steptrail.projections.runs_view.tables import EXECUTIONS
from steptrail.projections.runs_view.view import RunsView
from steptrail.runtime.flow.builder import FlowBuilder
from steptrail.workflow import FailureClass, RetryPolicy, Rule, RunOptions, Workflow
from tests.flow.kit import LEAVES, World, calls_of
from tests.harness.projecting import entries, projected
from tests.runner.families import PATIENCE
from tests.runner.kit import HandClock, again_on, trail_of

DAY = 86_400.0


@pytest.mark.acceptance("7.3-1")
async def test_an_answer_from_anywhere_is_taken_once_and_the_run_goes_on() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").human("ask", prompt="Publish {{ input.what }}?", output="said").build()
    async with trail_of(clock) as trail:
        result = await trail.run(flow, {"what": "a.md"}, session="f")
        assert result.status is ExecutionStatus.WAITING
        (task,) = result.state.tasks
        assert task.request is not None
        assert task.request.prompt == "Publish a.md?"
        answers = [again_on(trail, clock).flow("f").answer("ask", approved=True, by=f"p{n}") for n in range(4)]
        told = await asyncio.gather(*answers, return_exceptions=True)
        assert sum(not isinstance(each, BaseException) for each in told) == 1
        assert sum(isinstance(each, CommandRejected) for each in told) == 3
        assert [row.stream for row in await trail.due()] == ["flow:f"]
        result = await trail.flow("f").resume(flow)
    assert result.status is ExecutionStatus.COMPLETED
    assert result.envelope.vars["said_approved"] is True
    assert not world.done


async def test_what_comes_next_is_told_by_the_same_calls_however_many_questions_wait() -> None:
    called = list[int]()
    for count in (20, 100):
        flow = Workflow("t", options=RunOptions(step_timeout=DAY))
        for number in range(count):
            flow.human(f"n{number}", prompt="?", expires=DAY + number)
        async with trail_of() as trail:
            await trail.run(flow.build(), session="f")
            records = await trail.flow("f").events()
        last = max(at for at, each in enumerate(records) if isinstance(each.event, HumanRequested))
        state = FLOW.evolve_all(FLOW.initial("flow:f"), records[:last])
        effects, calls = calls_of(partial(FLOW.next_effects, state, state.as_of))
        called.append(calls)
        assert [type(effect) for effect in effects] == [Ask]
    assert called[0] == called[1]


async def test_an_answer_with_a_key_is_taken_once_however_often_it_is_sent() -> None:
    clock = HandClock()
    flow = Workflow("t").human("ask", prompt="?").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        for _ in range(2):
            await trail.flow("f").answer("ask", approved=True, by="ana", key="k")
        with pytest.raises(CommandRejected):
            await trail.flow("f").answer("ask", approved=False, by="bob", key="other")
        with pytest.raises(CommandRejected, match="use another key for this one"):
            await trail.flow("f").answer("ask", approved=False, by="ana", key="k")


async def test_another_word_about_a_held_step_under_the_key_of_the_first_is_refused() -> None:
    flow = Workflow("t", options=RunOptions(pause_before=("a",), longest_wait=0.0)).noop("a").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        for _ in range(2):
            await trail.flow("f").step("a", "continue", by="ana", key="k")
        with pytest.raises(CommandRejected, match="use another key for this one"):
            await trail.flow("f").step("a", "abort", by="ana", key="k")


@pytest.mark.parametrize("digest", ["", "0" * 64])
async def test_an_answer_to_another_question_is_refused(digest: str) -> None:
    flow = Workflow("t").human("ask", prompt="?").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        with pytest.raises(CommandRejected):
            await trail.flow("f").answer("ask", approved=True, by="ana", digest=digest)


@pytest.mark.acceptance("7.3-2")
@pytest.mark.parametrize(
    ("on_timeout", "default", "approved", "status"),
    [("fail", None, None, "failed"), ("skip", None, False, "completed"), ("default", "yes", True, "completed"),
     ("default", "no", False, "completed")],
)  # fmt: skip
async def test_nobody_answers_in_time(on_timeout: str, default: str | None, approved: bool | None, status: str) -> None:
    clock = HandClock()
    flow = (
        Workflow("t")
        .human("ask", prompt="?", expires=DAY, on_timeout=on_timeout, default=default, output="said")  # type: ignore[arg-type]
        .build()
    )
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        clock.advance(DAY)
        with pytest.raises(CommandRejected, match="expired"):
            await trail.flow("f").answer("ask", approved=True, by="late")
        result = await trail.flow("f").resume(flow)
    assert result.status.value == status
    if status == "failed":
        assert result.error is not None
        assert result.error.failure is FailureClass.EXPIRED
    else:
        assert result.envelope.vars["said_approved"] is approved


@pytest.mark.acceptance("7.3-3")
async def test_the_timeout_of_a_run_approves_nothing() -> None:
    clock = HandClock()
    flow = Workflow("t").human("ask", prompt="?", expires=DAY, on_timeout="default", default="yes").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=RunOptions(timeout=60.0, longest_wait=0.0))
        clock.advance(3600)
        result = await trail.flow("f").resume(flow)
        assert result.status is ExecutionStatus.WAITING
        assert "ask_output_approved" not in result.envelope.vars


@pytest.mark.parametrize("kind", ["question", "approval", "child", "long retry"])
async def test_no_process_stays_with_a_run_that_waits_for_a_person_however_little_time_the_run_has(kind: str) -> None:
    """It would end the run at its limit, although the person has all the time there is."""
    world, clock, options = World(), HandClock(), RunOptions(timeout=30.0)
    written = Workflow("t", options=options)
    if kind == "question":
        written.human("ask", prompt="?")
    elif kind == "child":
        written.flow("ask", Workflow("below", options=options).human("ask", prompt="?").build())
    else:
        world.fails["a"] = [ConnectionError("away")] if kind == "long retry" else []
        act, again = world.tool(approval=kind == "approval"), RetryPolicy(max_attempts=2, backoff=90.0)
        written.tool("ask", act, args={"name": "a"}, retry=again, timeout=500)
    async with asyncio.timeout(PATIENCE), trail_of(clock) as trail:
        flow = written.build()
        assert (await trail.run(flow, session="f")).status is ExecutionStatus.WAITING
        clock.advance(20)
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.WAITING


@pytest.mark.acceptance("7.3-4")
@pytest.mark.parametrize("on_reject", ["continue", "fail"])
async def test_a_rejection_is_an_answer_unless_the_node_says_otherwise(on_reject: str) -> None:
    flow = Workflow("t").human("ask", prompt="?", on_reject=on_reject, output="said").build()  # type: ignore[arg-type]
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").answer("ask", approved=False, by="ana", notes="not yet")
        result = await trail.flow("f").resume(flow)
    if on_reject == "continue":
        assert (result.status, result.envelope.vars["said_approved"]) == (ExecutionStatus.COMPLETED, False)
    else:
        assert result.error is not None
        assert (result.error.failure, "not yet" in result.error.message) == (FailureClass.REJECTED, True)


@pytest.mark.parametrize("how", ["rejected", "expired", "expired after a yes", "skipped", "skipped with a yes"])
async def test_the_yes_of_an_earlier_round_is_none_to_a_question_without_one(how: str) -> None:
    clock, rounds = HandClock(), iter(range(2))
    flow = (
        Workflow("t")
        .function("draft", lambda _: next(rounds), output="round")
        .human("review", expires=DAY, on_reject="fail", output="review")
        .noop("reviewed")
        .rule_router("again", [Rule("vars.round", to="approved")], default="draft")
        .gate("approved", when="vars.review_approved")
        .chain("draft", "review", "reviewed", "again", "approved")
        .edge("again", "draft", loop=True)
        .edge("review", "reviewed", when="error")
        .build()
    )
    held = RunOptions(pause_before=("review",), longest_wait=0.0)
    said = {"review_approved": True} if how.endswith("a yes") else {}
    async with trail_of(clock) as trail:
        handle = trail.flow("f")
        await trail.run(flow, session="f")
        await handle.answer("review", approved=True, by="ana")
        await handle.resume(flow, options=held if said or how == "skipped" else None)
        match how:
            case "rejected":
                await handle.answer("review", approved=False, by="ana")
            case "expired":
                clock.advance(DAY)
            case "expired after a yes":
                await handle.step("review", "continue", set=said, by="ana")
                await handle.resume(flow)
                clock.advance(DAY)
            case _:
                await handle.step("review", "skip", set=said, by="ana")
        result = await handle.resume(flow)
    passed = how == "skipped with a yes"
    assert (result.envelope.vars["review_approved"], result.envelope.vars["review"]) == (passed, None)
    assert result.stop_reason is (StopReason.COMPLETED if passed else StopReason.GUARD)


async def test_a_choice_must_be_one_of_the_options() -> None:
    flow = Workflow("t").human("ask", type="choice", prompt="?", options=("red", "blue"), output="said").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        for wrong in ("green", None):
            with pytest.raises(CommandRejected):
                await trail.flow("f").answer("ask", choice=wrong, by="ana")
        await trail.flow("f").answer("ask", choice="blue", by="ana")
        result = await trail.flow("f").resume(flow)
    said = result.envelope.vars["said"]
    assert isinstance(said, dict)
    assert said["choice"] == "blue"


@pytest.mark.parametrize("answer", ["yes", "other", "no", "late"])
async def test_a_tool_that_needs_a_yes_runs_with_exactly_what_was_approved(answer: str) -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("act", world.tool(ToolEffect.UNSAFE), args={"name": "a"}, approval=True).build()
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f")
        assert (result.status, world.ids) == (ExecutionStatus.WAITING, [])
        approval = result.state.tasks[0].approval
        assert approval is not None
        handle = trail.flow("f")
        match answer:
            case "yes":
                with pytest.raises(CommandRejected):
                    await handle.approve(approval.id, by="ana", digest="x")
                await handle.approve(approval.id, by="ana", digest=approval.digest)
            case "other":
                await handle.approve(approval.id, by="ana", arguments={"name": "b"})
            case "no":
                await handle.deny(approval.id, by="ana", reason="never")
            case _:
                clock.advance(30 * DAY)
        result = await handle.resume(flow)
    if answer in {"yes", "other"}:
        assert world.ids == ["a" if answer == "yes" else "b"]
        assert result.status is ExecutionStatus.COMPLETED
    else:
        assert world.ids == []
        assert result.error is not None
        assert result.error.failure is (FailureClass.REJECTED if answer == "no" else FailureClass.EXPIRED)
        assert result.error.attempt == 0


@pytest.mark.parametrize("is_item", [False, True])
async def test_a_yes_to_arguments_of_other_names_is_refused_and_not_used_up(is_item: bool) -> None:
    world, written = World(), Workflow("t")
    act = world.tool(approval=True)
    if is_item:
        written.map("act", over="items", tool=act, args={"name": "{{ item }}"})
    else:
        written.tool("act", act, args={"name": "a"})
    flow = written.build()
    async with trail_of() as trail:
        approval = (await trail.run(flow, vars={"items": ["a"]}, session="f")).state.tasks[-1].approval
        assert approval is not None
        given: list[tuple[dict[str, JsonValue], str]] = [
            ({"nmae": "b"}, "its edited arguments do not fit act: they lack name"),
            ({"name": "b", "nmae": "b"}, "its edited arguments do not fit act: there is no parameter 'nmae'"),
        ]
        for arguments, why in given:
            with pytest.raises(CommandRejected, match=why):
                await trail.flow("f").approve(approval.id, by="ana", arguments=arguments)
        await trail.flow("f").approve(approval.id, by="ana", arguments={"name": "b"})
        assert (await trail.flow("f").resume(flow)).status is ExecutionStatus.COMPLETED
    assert world.ids == ["b"]


async def test_several_questions_are_open_at_once_and_answered_in_any_order() -> None:
    world, clock = World(), HandClock()
    flow = (
        Workflow("t")
        .noop("start")
        .human("x", prompt="x?")
        .human("y", prompt="y?")
        .function("after_x", world.function("after_x"))
        .noop("end")
        .edge("start", "x", "y")
        .edge("x", "after_x")
        .edge(("after_x", "y"), "end")
        .build()
    )
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", options=LEAVES)
        assert len((await trail.runs())[0].waits) == 2
        await trail.flow("f").answer("x", approved=True, by="ana")
        result = await trail.flow("f").resume(flow)
        assert (result.status, world.done["after_x"]) == (ExecutionStatus.WAITING, 1)
        await trail.flow("f").answer("y", approved=False, by="bob")
        result = await trail.flow("f").resume(flow)
    assert result.status is ExecutionStatus.COMPLETED


async def test_an_answer_to_a_paused_run_is_kept() -> None:
    clock = HandClock()
    flow = Workflow("t").human("ask", prompt="?", output="said").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").pause(by="ana")
        await trail.flow("f").answer("ask", approved=True, by="bob")
        assert await trail.due() == []
        result = await trail.flow("f").resume(flow)
    assert result.status is ExecutionStatus.COMPLETED


async def test_a_run_that_was_paused_while_it_waited_is_at_work_once_it_goes_on() -> None:
    seen: list[object] = []

    async def look(_: object) -> None:
        handle = trail.flow("f")
        state, rows = await handle.state(), projected(RunsView(), entries("flow:f", await handle.events()))
        assert state.run is not None
        seen.append((state.status, state.run.wait))
        seen.append([(row["status"], row["waits_for"]) for row in rows.of(EXECUTIONS)])

    flow = Workflow("t").human("ask", prompt="?").function("look", look).edge("ask", "look").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        await trail.flow("f").pause(by="ana")
        await trail.flow("f").answer("ask", approved=True, by="bob")
        await trail.flow("f").resume(flow)
    assert seen == [(ExecutionStatus.IN_PROGRESS, None), [("in_progress", None)]]


async def test_a_stop_ends_a_run_that_waits_for_a_person() -> None:
    flow = Workflow("t").human("ask", prompt="?").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f")
        result = await trail.flow("f").stop(by="ana")
        assert result.status is ExecutionStatus.STOPPED
        with pytest.raises(CommandRejected):
            await trail.flow("f").answer("ask", approved=True, by="bob")
        result = await trail.flow("f").retry(flow)
        assert result.status is ExecutionStatus.WAITING
        (task,) = result.state.tasks
        assert task.request is not None
        assert task.request.request_id == "f:1:ask:1:r1"


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "#"}, {"$ref": "http://127.0.0.1:1/x"}])
async def test_nobody_is_asked_for_a_value_by_a_schema_that_is_none(schema: dict[str, JsonValue]) -> None:
    flow = FlowBuilder("t").human("ask", type="input", prompt="?", schema=schema).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=LEAVES)
        assert not await trail.inbox()
    assert result.error is not None
    assert (result.status, result.error.failure) == (ExecutionStatus.FAILED, FailureClass.CONFIG)


async def test_an_answer_that_a_schema_cannot_judge_is_refused() -> None:
    schema: dict[str, JsonValue] = {"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}
    flow = Workflow("t").human("ask", type="input", prompt="?", schema=schema).build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=LEAVES)
        with pytest.raises(CommandRejected, match="schema cannot be used"):
            await trail.flow("f").answer("ask", data={"a": 1}, by="ana")


async def test_the_second_answer_is_told_who_answered_first_and_when() -> None:
    clock = HandClock()
    flow = Workflow("t").human("ask", prompt="?").human("other", prompt="?").build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f")
        run = trail.flow("f")
        await run.answer("ask", approved=True, by="ana")
        clock.advance(3600)
        first = "ana has answered it already, at 2027-01-15 08:00:00 UTC, and a question is answered once"
        for to in ("ask", "f:1:ask:1"):
            with pytest.raises(CommandRejected, match=f"cannot answer session 'flow:f': {first}"):
                await run.answer(to, approved=False, by="ben")
        await run.resume(flow)
        with pytest.raises(CommandRejected, match=first):
            await run.answer("ask", approved=False, by="ben")
        with pytest.raises(CommandRejected, match="nobody is asked about 'nothing'"):
            await run.answer("nothing", approved=False, by="ben")


async def test_the_second_word_about_a_held_step_and_a_second_approval_say_who_was_first() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").tool("act", world.tool(), args={"name": "pay"}, approval=True).build()
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=RunOptions(pause_before=("act",)))
        run = trail.flow("f")
        await run.step("act", "continue", by="ana")
        with pytest.raises(
            CommandRejected, match=r'ana has said "continue" to it already, at 2027-01-15 .* UTC, and a '
        ):
            await run.step("act", "abort", by="ben")
        asked = await run.resume(flow)
        (task,) = asked.state.tasks
        assert task.approval is not None
        await run.deny(task.approval.id, by="ana")
        with pytest.raises(CommandRejected, match=r"ana has denied it already, at .* UTC, and an approval is answered"):
            await run.approve(task.approval.id, by="ben")


async def test_nobody_is_asked_about_a_call_of_a_node_whose_arguments_do_not_fit_its_tool() -> None:
    world = World()
    flow = Workflow("t").tool("act", world.tool(), args={"name": [1, 2]}, approval=True).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f")
        kinds = [record.event.TYPE for record in await trail.flow("f").history()]
    assert result.error is not None
    assert (result.error.failure, result.error.attempt) == (FailureClass.VALIDATION, 0)
    assert "approval.requested.v1" not in kinds
    assert not world.done
