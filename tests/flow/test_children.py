"""Agents and workflows as nodes: a stream of their own, begun once, and never left behind."""

import asyncio
from decimal import Decimal

import pytest

from steptrail import Agent, AgentBuilder, ErrorPolicy, Limits, Steptrail, ToolEffect, tool
from steptrail.domain.flow.policies import UnpricedInFlow
from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.models import PriceTable, Usage
from steptrail.testing import ScriptedModel, call, calls, say
from steptrail.workflow import Budget, BuiltWorkflow, Envelope, FailureClass, RetryPolicy, RunOptions, Workflow
from tests.flow.kit import World, events_of, run_to_rest
from tests.runner.families import PATIENCE
from tests.runner.kit import Crash, HandClock, again_on, crash_at, dies, trail_of


def with_an_agent(world: World, *replies: object, approval: bool = False) -> BuiltWorkflow:
    @tool(effect=ToolEffect.UNSAFE, approval=approval)
    async def act(name: str) -> str:
        """Act."""
        return await world.do(name)

    model = ScriptedModel(list(replies))
    agent = AgentBuilder("critic").with_model(model).with_tools(act).build()
    return (
        Workflow("t")
        .function("plan", lambda _: "cats", output="plan")
        .agent("critic", agent, prompt="What is missing in {{ vars.plan }}?", output="critique")
        .function("end", world.function("end"))
        .chain("plan", "critic", "end")
        .build()
    )


async def child_of(trail: Steptrail) -> str:
    (row,) = [row for row in await trail.runs() if row.parent is not None]
    return row.stream


async def test_an_agent_answers_and_its_bill_is_the_nodes() -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"))
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        tree = await trail.tree("flow:f")
        child = await child_of(trail)
    assert (result.status, result.envelope.vars["critique"]) == (ExecutionStatus.COMPLETED, "dogs")
    assert child.startswith("agent:")
    assert [below.run.stream for below in tree.children] == [child]
    assert result.usage == tree.children[0].usage
    assert result.usage.total > 0
    assert world.done == {"look": 1, "end": 1}


@pytest.mark.parametrize("is_beside", [False, True])
async def test_a_run_goes_on_with_its_agent_when_the_time_has_come_for_which_that_rested(is_beside: bool) -> None:
    """The agent leaves at once when it has to wait. The workflow stays, or has other work, and looks after it."""
    policy = ErrorPolicy.retry_all(3).with_backoff(Backoff.linear(0.05))
    model = ScriptedModel([ConnectionError("away"), say("dogs")])
    agent = AgentBuilder("critic").with_model(model).with_error_policy(policy)
    flow = Workflow("t").agent(
        "critic", agent.with_limits(Limits(longest_wait=0.0)).build(), prompt="go", output="said"
    )

    async def beside(_: Envelope) -> str:
        async with asyncio.timeout(PATIENCE):
            while len(model.requests) < 2:
                await asyncio.sleep(0.001)
        return "done"

    if is_beside:
        flow.function("beside", beside)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(flow.build(), session="f")
        waits = [event for event in await events_of(trail) if isinstance(event, WaitStarted)]
    assert (result.status, result.envelope.vars["said"]) == (ExecutionStatus.COMPLETED, "dogs")
    assert len(waits) == (0 if is_beside else 1)


async def test_a_flow_waits_with_its_agent_and_goes_on_when_a_person_has_answered() -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"), approval=True)
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        assert result.status is ExecutionStatus.WAITING
        stream = await child_of(trail)
        session = trail.session(stream.removeprefix("agent:"))
        (approval,) = (await session.state()).open_approvals
        await session.approve(approval.id, by="ana")
        assert "flow:f" in [row.stream for row in await trail.due()]
        result = await trail.flow("f").resume(flow)
        assert result.usage == (await trail.tree("flow:f")).children[0].usage
    assert (result.status, result.envelope.vars["critique"]) == (ExecutionStatus.COMPLETED, "dogs")
    assert world.done == {"look": 1, "end": 1}


@pytest.mark.parametrize("number", range(1, 10))
async def test_a_crash_anywhere_begins_no_second_session(number: int) -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"))
    async with trail_of(clock) as trail:
        with dies(number, 8):
            await run_to_rest(again_on(trail, clock, crash_at("before-append", number)), clock, flow)
        result = await run_to_rest(trail, clock, flow)
        if result.status is ExecutionStatus.COMPLETED:
            assert result.envelope.vars["critique"] is not None
        assert len([row for row in await trail.runs() if row.parent is not None]) == 1
        assert world.done["look"] == 1


async def test_an_agent_without_an_answer_is_a_failure_of_the_class_child() -> None:
    world, clock = World(), HandClock()
    model = ScriptedModel([call("act", name="x")] * 3)

    @tool
    async def act(name: str) -> str:
        """Act."""
        return await world.do(name)

    agent = AgentBuilder("a").with_model(model).with_tools(act).with_limits(Limits(max_steps=1)).build()
    flow = Workflow("t").agent("a", agent, prompt="go").build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
    assert result.error is not None
    assert result.error.failure is FailureClass.CHILD
    assert result.error.details["stop_reason"] == "steps_limit"


@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_a_child_that_failed_is_tried_again_in_a_stream_of_its_own(kind: str) -> None:
    world, clock = World(), HandClock()
    policy = RetryPolicy(max_attempts=2, retry_on=(FailureClass.CHILD,))
    if kind == "agent":
        turns = iter([call("act", name="x"), say("dogs")])
        agent = AgentBuilder("a").with_model(ScriptedModel([lambda _: next(turns)])).with_tools(world.tool())
        flow = Workflow("t").agent("below", agent.with_max_steps(1).build(), prompt="go", retry=policy).build()
    else:
        world.fails["x"] = [RuntimeError("no"), None]
        inner = Workflow("inner").function("x", world.function("x")).build()
        flow = Workflow("t").flow("below", inner, retry=policy).build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        assert result.status is ExecutionStatus.COMPLETED
        rows = [row for row in await trail.runs() if row.parent is not None]
    assert {row.stream.partition(":")[0] for row in rows} == {kind}
    assert {row.parent.effect for row in rows if row.parent} == {"f:1:below:1", "f:1:below:1:r0.1"}
    assert world.done == {"x": 1 if kind == "agent" else 2}


@pytest.mark.parametrize("kind", ["agent", "flow"])
@pytest.mark.parametrize("tries", [1, 2])
async def test_a_retried_run_retries_its_newest_child_and_repeats_nothing_that_had_finished_there(
    kind: str, tries: int
) -> None:
    world, clock = World(), HandClock()
    policy = RetryPolicy(max_attempts=tries, backoff=0, retry_on=(FailureClass.CHILD,))
    if kind == "agent":
        model = ScriptedModel([call("act", name="x"), say("dogs")])
        agent = AgentBuilder("a").with_model(model).with_tools(world.tool())
        flow = Workflow("t").agent("below", agent.with_max_steps(1).build(), prompt="go", retry=policy).build()
    else:
        world.fails["y"] = [*[RuntimeError("no")] * tries, None]
        inner = Workflow("inner").function("x", world.function("x")).function("y", world.function("y")).chain("x", "y")
        flow = Workflow("t").flow("below", inner.build(), retry=policy).build()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        assert result.status is ExecutionStatus.FAILED
        before = {row.stream for row in await trail.runs()}
        result = await trail.flow("f").retry(flow)
        assert result.status is ExecutionStatus.COMPLETED
        rows = await trail.runs()
    assert {row.stream for row in rows} == before
    newest = "f:1:below:1" if tries == 1 else "f:1:below:1:r0.1"
    assert {row.executions for row in rows if row.parent and row.parent.effect == newest} == {2}
    assert world.done["x"] == tries


@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.parametrize("kind", ["agent", "flow"])
async def test_what_a_child_was_billed_before_a_retry_is_counted_once(kind: str, tries: int) -> None:
    world, clock = World(), HandClock()
    policy = RetryPolicy(max_attempts=tries, backoff=0, retry_on=(FailureClass.CHILD,))
    turns = iter([*[call("act", name="x")] * tries, say("dogs")])
    agent = (
        AgentBuilder("a")
        .with_model(ScriptedModel([lambda _: next(turns), lambda _: next(turns)]))
        .with_tools(world.tool())
    )
    if kind == "agent":
        flow = Workflow("t").agent("below", agent.with_max_steps(1).build(), prompt="go", retry=policy).build()
    else:
        inner = Workflow("inner").agent("x", agent.with_max_steps(1).build(), prompt="go").build()
        flow = Workflow("t").flow("below", inner, retry=policy).build()
    async with trail_of(clock) as trail:
        failed = await run_to_rest(trail, clock, flow)
        assert (failed.state.usage, (await trail.tree("flow:f")).usage) == (usage_of(tries), usage_of(tries))
        done = await trail.flow("f").retry(flow)
        assert (done.state.usage, (await trail.tree("flow:f")).usage) == (usage_of(tries + 1), usage_of(tries + 1))


def usage_of(replies: int) -> Usage:
    return Usage(input=10 * replies, output=5 * replies)


@pytest.mark.parametrize("kind", ["agent", "flow"])
@pytest.mark.parametrize("number", range(1, 5))
async def test_a_crash_anywhere_in_a_retry_repeats_nothing_that_the_child_had_finished(kind: str, number: int) -> None:
    world, clock = World(), HandClock()
    if kind == "agent":
        model = ScriptedModel([call("act", name="x"), say("dogs"), say("dogs")])
        agent = AgentBuilder("a").with_model(model).with_tools(world.tool())
        flow = Workflow("t").agent("below", agent.with_max_steps(1).build(), prompt="go").build()
    else:
        world.fails["y"] = [RuntimeError("no"), None, None]
        inner = Workflow("inner").function("x", world.function("x")).function("y", world.function("y")).chain("x", "y")
        flow = Workflow("t").flow("below", inner.build()).build()
    async with trail_of(clock) as trail:
        assert (await run_to_rest(trail, clock, flow)).status is ExecutionStatus.FAILED
        dying = again_on(trail, clock, crash_at("after-append", number))
        with pytest.raises(Crash):
            await dying.flow("f").retry(flow)
        handle = trail.flow("f")
        if not (await handle.state()).is_open:
            # The retry itself was not stored, or its end was.
            result = await handle.retry(flow) if (await handle.state()).status is ExecutionStatus.FAILED else None
        else:
            result = await handle.resume(flow)
        assert result is None or result.status is ExecutionStatus.COMPLETED
        rows = [row for row in await trail.runs() if row.parent]
    assert [(row.parent.effect, row.executions) for row in rows if row.parent] == [("f:1:below:1", 2)]
    assert world.done["x"] == 1


async def test_a_child_that_fails_after_the_run_was_retried_is_tried_again_in_a_new_stream() -> None:
    world, clock = World(), HandClock()
    world.fails["x"] = [*[RuntimeError("no")] * 3, None]
    inner = Workflow("inner").function("x", world.function("x")).build()
    policy = RetryPolicy(max_attempts=2, backoff=0, retry_on=(FailureClass.CHILD,))
    flow = Workflow("t").flow("below", inner, retry=policy).build()
    async with trail_of(clock) as trail:
        assert (await run_to_rest(trail, clock, flow)).status is ExecutionStatus.FAILED
        assert (await trail.flow("f").retry(flow)).status is ExecutionStatus.COMPLETED
        effects = {row.parent.effect: row.executions for row in await trail.runs() if row.parent}
    assert effects == {"f:1:below:1": 1, "f:1:below:1:r0.1": 2, "f:1:below:1:r1.1": 1}


async def test_a_workflow_in_a_workflow_hands_its_output_on() -> None:
    world, clock = World(), HandClock()
    inner = Workflow("inner").function("double", lambda seen: int(str(seen.input)) * 2).build()
    flow = (
        Workflow("outer")
        .function("n", lambda _: 21, output="n")
        .flow("twice", inner, input="{{ vars.n }}", output="out")
        .chain("n", "twice")
        .build()
    )
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow)
        assert (result.status, result.output) == (ExecutionStatus.COMPLETED, 42)
        assert (await child_of(trail)).startswith("flow:")
    assert not world.done


@pytest.mark.usefixtures("soon")
async def test_a_stop_of_the_flow_stops_what_it_has_begun() -> None:
    world, clock = World(), HandClock()
    world.holds = "look"
    flow = with_an_agent(world, call("act", name="look"), say("dogs"))
    async with trail_of(clock) as trail:
        running = asyncio.create_task(trail.run(flow, session="f", options=RunOptions(stop_grace=0.1)))
        await world.entered.wait()
        await trail.flow("f").stop(by="ana")
        result = await running
        assert result.status is ExecutionStatus.STOPPED
        child = await trail.handle(await child_of(trail)).state()
        assert child.is_open is False
    assert world.done == {"look": 1}


async def test_nesting_has_an_end() -> None:
    flow = Workflow("deep").function("f", lambda _: 1).build()
    for level in range(4):
        flow = Workflow(f"level{level}").flow("below", flow).build()
    async with trail_of() as trail:
        result = await trail.run(flow)
    assert result.status is ExecutionStatus.FAILED


def spending(*tokens: int, limits: Limits | None = None) -> Agent:
    """Return an agent each of whose steps calls a tool and uses this many tokens; then it answers."""

    @tool(effect=ToolEffect.READ)
    def look() -> str:
        """Look."""
        return "seen"

    script = [calls(("look", {}), usage=Usage(output=used)) for used in tokens]
    builder = AgentBuilder("spender").with_model(ScriptedModel([*script, say("done")])).with_tools(look)
    return (builder if limits is None else builder.with_limits(limits)).build()


@pytest.mark.parametrize(
    ("run_budget", "node_budget", "own", "expected"),
    [(100, None, None, 90), (None, 60, None, 60), (100, 60, None, 60), (100, 60, 40, 40), (10, None, None, 1)],
)
async def test_an_agent_is_lent_what_is_left_of_the_tokens(
    run_budget: int | None, node_budget: int | None, own: int | None, expected: int
) -> None:
    agent = spending(5, limits=None if own is None else Limits(max_tokens=own))
    flow = (
        Workflow("t")
        .llm("first", ScriptedModel([say("x", usage=Usage(output=10))]), prompt="x")
        .agent("spend", agent, prompt="x", budget=Budget(max_total_tokens=node_budget))
        .chain("first", "spend")
        .build()
    )
    options = RunOptions(budget=Budget(max_total_tokens=run_budget), longest_wait=0.0)
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=options)
        child = await trail.session((await child_of(trail)).removeprefix("agent:")).state()
    assert child.agent is not None
    assert child.agent.limits.max_tokens == expected


async def test_an_agent_that_uses_up_what_it_is_lent_is_stopped_between_its_steps_and_its_node_fails() -> None:
    flow = Workflow("t").agent("spend", spending(50, 50, 50, 50), prompt="x", retry=1).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=RunOptions(budget=Budget(max_total_tokens=100)))
    assert result.status is ExecutionStatus.FAILED
    assert 100 <= result.usage.total < 200
    assert result.error is not None
    assert result.error.details["stop_reason"] == "token_limit"


async def test_what_an_agent_has_used_before_it_rested_is_lent_to_it_again() -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"), approval=True)
    options = RunOptions(budget=Budget(max_total_tokens=500), longest_wait=0.0)
    async with trail_of(clock) as trail:
        await trail.run(flow, session="f", options=options)
        session = trail.session((await child_of(trail)).removeprefix("agent:"))
        before = (await session.state()).agent
        await session.approve((await session.state()).open_approvals[0].id, by="ana")
        result = await trail.flow("f").resume(flow)
        after = (await session.state()).agent
    assert result.status is ExecutionStatus.COMPLETED
    assert before is not None
    assert after is not None
    assert before.limits.max_tokens == after.limits.max_tokens == 500


@pytest.mark.parametrize(("own", "expected"), [(None, 90), (40, 40), (400, 90)])
async def test_a_workflow_is_lent_what_is_left_and_lends_it_on(own: int | None, expected: int) -> None:
    budget = None if own is None else Budget(max_total_tokens=own)
    inner = Workflow("inner", options=RunOptions(budget=budget)).agent("spend", spending(5), prompt="x").build()
    flow = (
        Workflow("t")
        .llm("first", ScriptedModel([say("x", usage=Usage(output=10))]), prompt="x")
        .flow("below", inner)
        .chain("first", "below")
        .build()
    )
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=RunOptions(budget=Budget(max_total_tokens=100)))
        below = [row for row in await trail.runs() if row.parent is not None]
        (child,) = [await trail.flow(row.session_id).state() for row in below if row.kind == "flow"]
        (agent,) = [await trail.session(row.session_id).state() for row in below if row.kind == "agent"]
    assert child.run is not None
    assert child.run.options.budget == Budget(max_total_tokens=expected)
    assert agent.agent is not None
    assert agent.agent.limits.max_tokens == expected


def priced(model: str) -> PriceTable:
    return PriceTable.of({model: {"input": 0, "output": 10}}, version="1")


PRICES = priced("scripted")


@pytest.mark.parametrize(
    ("run_budget", "node_budget", "own", "expected"),
    [
        ("0.001", None, None, "0.0009"),
        (None, "0.0006", None, "0.0006"),
        ("0.001", "0.0006", "0.0004", "0.0004"),
        ("0.0001", None, None, "0.000000000001"),
    ],
)
async def test_an_agent_is_lent_what_is_left_of_the_money(
    run_budget: str | None, node_budget: str | None, own: str | None, expected: str
) -> None:
    agent = spending(5, limits=None if own is None else Limits(max_cost=Decimal(own), prices=PRICES))
    flow = (
        Workflow("t")
        .llm("first", ScriptedModel([say("x", usage=Usage(output=10))]), prompt="x")
        .agent("spend", agent, prompt="x", budget=Budget(max_cost_usd=usd(node_budget)))
        .chain("first", "spend")
        .build()
    )
    options = RunOptions(budget=Budget(max_cost_usd=usd(run_budget)), prices=PRICES, longest_wait=0.0)
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=options)
        child = await trail.session((await child_of(trail)).removeprefix("agent:")).state()
    assert child.agent is not None
    assert (child.agent.limits.max_cost, child.agent.limits.prices) == (Decimal(expected), PRICES)


def usd(amount: str | None) -> Decimal | None:
    return None if amount is None else Decimal(amount)


@pytest.mark.parametrize(
    ("model", "unpriced", "used"),
    [("scripted", "fail_closed", 100), ("other", "fail_closed", 0), ("other", "ignore", None)],
)
async def test_an_agent_that_spends_what_it_is_lent_is_stopped_and_so_is_one_without_a_price_unless_that_is_ignored(
    model: str, unpriced: UnpricedInFlow, used: int | None
) -> None:
    options = RunOptions(budget=Budget(max_cost_usd=Decimal("0.001")), prices=priced(model), unpriced=unpriced)
    flow = Workflow("t").agent("spend", spending(50, 50, 50, 50), prompt="x", retry=1).build()
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=options)
    assert (result.status is ExecutionStatus.COMPLETED) is (used is None)
    if used is not None:
        assert result.error is not None
        assert (result.usage.total, result.error.details["stop_reason"]) == (used, "guard")


async def test_money_that_was_spent_before_an_agent_rested_is_lent_to_it_again_and_a_crash_changes_no_loan() -> None:
    world, clock = World(), HandClock()
    flow = with_an_agent(world, call("act", name="look"), say("dogs"), approval=True)
    options = RunOptions(budget=Budget(max_cost_usd=Decimal(1)), prices=PRICES, longest_wait=0.0)
    async with trail_of(clock) as trail:
        with pytest.raises(Crash):
            await again_on(trail, clock, crash_at("before-append", 5)).run(flow, session="f", options=options)
        await run_to_rest(trail, clock, flow, options=options)
        session = trail.session((await child_of(trail)).removeprefix("agent:"))
        before = (await session.state()).agent
        await session.approve((await session.state()).open_approvals[0].id, by="ana")
        result = await trail.flow("f").resume(flow)
        after = (await session.state()).agent
    assert result.status is ExecutionStatus.COMPLETED
    assert before is not None
    assert after is not None
    assert before.limits.max_cost == after.limits.max_cost == 1


@pytest.mark.parametrize(("own", "expected"), [(None, "0.0009"), ("0.0004", "0.0004"), ("4", "0.0009")])
async def test_a_workflow_is_lent_what_is_left_of_the_money_with_the_prices_and_lends_it_on(
    own: str | None, expected: str
) -> None:
    options = RunOptions(budget=Budget(max_cost_usd=usd(own)), prices=None if own is None else PRICES)
    inner = Workflow("inner", options=options).agent("spend", spending(5), prompt="x").build()
    flow = (
        Workflow("t")
        .llm("first", ScriptedModel([say("x", usage=Usage(output=10))]), prompt="x")
        .flow("below", inner)
        .chain("first", "below")
        .build()
    )
    lent = RunOptions(budget=Budget(max_cost_usd=Decimal("0.001")), prices=PRICES)
    async with trail_of() as trail:
        result = await trail.run(flow, session="f", options=lent)
        below = [row for row in await trail.runs() if row.parent is not None]
        (child,) = [await trail.flow(row.session_id).state() for row in below if row.kind == "flow"]
        (agent,) = [await trail.session(row.session_id).state() for row in below if row.kind == "agent"]
    assert result.status is ExecutionStatus.COMPLETED
    assert child.run is not None
    assert child.run.options.budget == Budget(max_cost_usd=Decimal(expected))
    assert child.run.options.prices == PRICES
    assert agent.agent is not None
    assert agent.agent.limits.max_cost == Decimal(expected)
