"""What other engines do wrong with the errors of nodes, one case each: here it goes better."""

from collections.abc import Callable
from typing import Any

import pytest

from steptrail import tool
from steptrail.domain.flow.events import (
    FlowEvent,
    NodeCompleted,
    NodeFailureRecorded,
)
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.errors import CommandRejected, ConfigurationError, ExecutionFailed
from steptrail.testing import ScriptedModel, say
from steptrail.tools import ToolRetry
from steptrail.workflow import (
    BuiltWorkflow,
    Case,
    Check,
    Envelope,
    FailureClass,
    FlowResult,
    RetryPolicy,
    Rule,
    RunOptions,
    Update,
    Workflow,
)
from tests.flow.kit import LEAVES, World, events_of, named, run_to_rest
from tests.runner.kit import HandClock, trail_of

TOLERANT = RunOptions(continue_on_error=True, longest_wait=0.0)
Chooser = Callable[[Workflow, dict[str, Any]], Workflow]


async def played(
    flow: BuiltWorkflow, given: object = None, *, options: RunOptions = LEAVES
) -> tuple[FlowResult, list[FlowEvent]]:
    clock = HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, flow, given, options=options)
        return result, await events_of(trail)


def no(_: object) -> bool:
    return False


def breaks(_: object) -> bool:
    raise RuntimeError("broken")


# Policies.


@pytest.mark.parametrize("attempts", [0, -1])
def test_tries_below_one_are_refused_and_are_no_empty_success(attempts: int) -> None:
    with pytest.raises(ConfigurationError, match="max_attempts"):
        RetryPolicy(max_attempts=attempts)


def test_a_backoff_alone_keeps_the_number_of_tries() -> None:
    assert RetryPolicy(backoff=0.02) == RetryPolicy(max_attempts=3, backoff=0.02)


async def test_the_retries_of_a_tool_and_of_its_node_do_not_multiply() -> None:
    tried = 0

    @tool(retry=ToolRetry(attempts=3))
    async def flaky() -> None:
        """Fail."""
        nonlocal tried
        tried += 1
        raise ConnectionError("away")

    result, _ = await played(Workflow("t").tool("a", flaky).build())
    assert result.error is not None
    assert (tried, result.error.attempt) == (3, 3)


@pytest.mark.parametrize("kind", ["llm", "llm_router", "function", "map"])
async def test_every_kind_that_tries_takes_a_retry_and_a_policy(kind: str) -> None:
    world, retry = World(), RetryPolicy(max_attempts=2, backoff=0.0)
    world.breaks["a"] = ConnectionError("away")
    model = ScriptedModel([ConnectionError("away")] * 2)
    flow = Workflow("t")
    match kind:
        case "llm":
            flow.llm("a", model, prompt="x", retry=retry, on_error="continue", output="out")
        case "llm_router":
            routes = {"end": "end"}
            flow.llm_router("a", model, prompt="x", routes=routes, retry=retry, on_error="continue", output="out")
        case "function":
            flow.function("a", world.function("a"), retry=retry, on_error="continue", output="out")
        case _:
            flow.map("a", over="input", function=world.function("a"), retry=retry, on_error="continue", output="out")
    result, events = await played(flow.noop("end").chain("a", "end").build(), [1])
    assert named(events).count("node.attempt.started") == 2
    assert [(error.failure, error.attempt) for error in result.errors] == [(FailureClass.UNAVAILABLE, 2)]
    assert result.envelope.vars["out"] is None


async def test_the_number_of_the_try_and_of_the_visit_are_told_apart() -> None:
    world = World()
    world.fails["a"] = [None, ConnectionError("1"), ConnectionError("2")]
    flow = (
        Workflow("t")
        .function("a", world.function("a"), retry=RetryPolicy(max_attempts=2), on_error="record")
        .rule_router("again", [Rule(lambda seen: not seen.has_errors(), to="a")])
        .chain("a", "again")
        .edge("again", "a", loop=True)
        .build()
    )
    result, _ = await played(flow)
    assert [(error.visit, error.attempt) for error in result.errors] == [(2, 2)]


# What is recorded of a failure after which the run goes on.


@pytest.mark.parametrize("tier", ["node", "run"])
async def test_a_recorded_failure_is_no_clean_success_and_nulls_a_stale_output(tier: str) -> None:
    world, clock = World(), HandClock()
    world.breaks["a"] = RuntimeError("no")
    settings: dict[str, Any] = {"on_error": "continue"} if tier == "node" else {}
    flow = Workflow("t").function("a", world.function("a"), output="out", **settings).noop("b").chain("a", "b").build()
    async with trail_of(clock) as trail:
        result = await trail.run(flow, session="f", vars={"out": "stale"}, options=TOLERANT)
        events = await events_of(trail)
    assert result.envelope.vars == {"out": None, "out_error": "no"}
    assert [event.node for event in events if isinstance(event, NodeFailureRecorded)] == ["a"]
    assert "a" not in [event.node for event in events if isinstance(event, NodeCompleted)]
    assert repr(result) == "<FlowResult 'f': completed, completed, recorded errors: 1>"


async def test_a_result_that_failed_says_at_which_node_of_what_and_where() -> None:
    def pick(seen: Envelope) -> object:
        return seen.input["price"]

    flow = Workflow("t").function("read", lambda seen: seen.input).function("pick", pick).chain("read", "pick").build()
    async with trail_of() as trail:
        result = await trail.run(flow, {"cents": 3}, session="f")
    assert result.error is not None
    assert str(result.error).startswith("pick: KeyError: 'price' (")
    assert str(result.error).endswith("in pick)")
    assert repr(result) == f"<FlowResult 'f': failed, error, {result.error}>"
    with pytest.raises(ExecutionFailed, match="node pick: KeyError: 'price' "):
        result.raise_for_stop()


async def test_a_node_behind_a_failure_sees_it_and_one_beside_it_does_not() -> None:
    world, seen_by = World(), dict[str, int]()
    world.breaks["ill"] = RuntimeError("no")

    def look(name: str) -> Callable[[Envelope], None]:
        def see(seen: Envelope) -> None:
            seen_by[name] = len(seen.errors)

        return see

    flow = (
        Workflow("t")
        .function("ill", world.function("ill"))
        .function("well", world.function("well"))
        .function("behind", look("behind"))
        .function("beside", look("beside"))
        .function("end", look("end"))
        .edge("ill", "behind")
        .edge("well", "beside")
        .edge(("behind", "beside"), "end")
        .build()
    )
    await played(flow, options=TOLERANT)
    assert seen_by == {"behind": 1, "beside": 0, "end": 1}


async def test_what_a_failed_try_has_changed_is_seen_by_nobody() -> None:
    tries = 0

    def work(seen: Envelope) -> int:
        nonlocal tries
        tries += 1
        before: list[int] = seen.vars["list"]
        before.append(tries)
        if tries == 1:
            raise ConnectionError("away")
        return len(before)

    flow = Workflow("t").function("a", work, retry=RetryPolicy(max_attempts=2, backoff=0.0), output="n").build()
    async with trail_of() as trail:
        result = await trail.run(flow, vars={"list": []}, options=LEAVES)
    assert result.envelope.vars == {"list": [], "n": 1}


# Nodes that choose how the run goes on.


def gate(flow: Workflow, settings: dict[str, Any]) -> Workflow:
    return flow.gate("c", when=no, **settings).edge("c", "x", "y")


def guardian(flow: Workflow, settings: dict[str, Any]) -> Workflow:
    return flow.guardian("c", [Check("required", path="input.title")], **settings).edge("c", "x", "y")


def conditional(flow: Workflow, settings: dict[str, Any]) -> Workflow:
    return flow.conditional("c", [Case(no, to="x"), Case(no, to="y")], **settings).edge("c", "x", "y")


def rule_router(flow: Workflow, settings: dict[str, Any]) -> Workflow:
    return flow.rule_router("c", [Rule(breaks, to="x")], default="y", **settings).edge("c", "x", "y")


def llm_router(flow: Workflow, settings: dict[str, Any]) -> Workflow:
    model = ScriptedModel([say("none of them")] * 3)
    return flow.llm_router("c", model, prompt="?", routes={"left": "x", "right": "y"}, **settings).edge("c", "x", "y")


def human(flow: Workflow, settings: dict[str, Any]) -> Workflow:
    return flow.human("c", prompt="?", expires=60.0, **settings).edge("c", "x", "y")


@pytest.mark.acceptance("7.1-10")
@pytest.mark.parametrize("choose", [gate, guardian, conditional, rule_router, llm_router, human])
async def test_a_node_that_could_not_choose_enables_nothing_under_tolerance(choose: Chooser) -> None:
    async def of(**settings: Any) -> tuple[FlowResult, World]:
        world = World()
        flow = Workflow("t").function("x", world.function("x")).function("y", world.function("y"))
        result, _ = await played(choose(flow, settings).build(), {}, options=TOLERANT)
        return result, world

    result, world = await of()
    assert (result.status, world.done) == (ExecutionStatus.FAILED, {})
    assert result.error is not None
    assert result.error.tier == "node"
    result, world = await of(critical=False)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {})
    assert [error.node_id for error in result.errors] == ["c"]


async def test_an_error_edge_of_a_node_that_could_not_choose_is_taken_alone() -> None:
    world = World()
    flow = Workflow("t").function("x", world.function("x")).function("y", world.function("y"))
    flow.function("z", world.function("z"))
    result, _ = await played(gate(flow, {}).edge("c", "z", when="error").build())
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"z": 1})


async def test_a_merge_whose_failure_is_recorded_hands_on_the_join_with_every_error() -> None:
    flow = (
        Workflow("t")
        .function("one", lambda _: Update(set={"k": 1, "a": 1}))
        .function("two", lambda _: Update(set={"k": 2, "b": 2}))
        .merge("both", conflict="error")
        .function("end", lambda seen: [seen.get(key) for key in ("k", "a", "b")], output="end")
        .edge(("one", "two"), "both")
        .edge("both", "end")
        .build()
    )
    result, _ = await played(flow, options=TOLERANT)
    assert [(error.node_id, error.failure, error.attempt) for error in result.errors] == [
        ("both", FailureClass.CONFLICT, 0)
    ]
    assert result.envelope.vars["end"] == [2, 1, 2]


async def test_rules_of_which_none_holds_end_their_branch_and_the_run_completes() -> None:
    world = World()
    flow = Workflow("t").rule_router("c", [Rule(no, to="x")]).function("x", world.function("x")).chain("c", "x").build()
    result, _ = await played(flow)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {})


@pytest.mark.parametrize("kind", ["gate", "guardian"])
async def test_a_redirect_is_honoured_and_takes_nothing_else(kind: str) -> None:
    world = World()
    flow = Workflow("t").function("x", world.function("x")).function("y", world.function("y"))
    choose = {"gate": gate, "guardian": guardian}[kind]
    await played(choose(flow, {"on_fail": "redirect", "redirect": "y"}).build(), {})
    assert world.done == {"y": 1}


@pytest.mark.parametrize("choose", [gate, guardian, conditional, rule_router, llm_router])
async def test_a_choice_is_skipped_only_with_the_nodes_that_it_is_to_enable(choose: Chooser) -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").function("x", world.function("x")).function("y", world.function("y"))
    built = choose(flow, {"on_fail": "redirect", "redirect": "y"} if choose in {gate, guardian} else {}).build()
    async with trail_of(clock) as trail:
        await trail.run(built, {}, session="f", options=RunOptions(pause_before=("c",), longest_wait=0.0))
        with pytest.raises(CommandRejected, match="targets"):
            await trail.flow("f").step("c", "skip", by="ana")
        with pytest.raises(CommandRejected, match="no edge leads from 'c' to 'z'"):
            await trail.flow("f").step("c", "skip", by="ana", targets=["y", "z"])
        with pytest.raises(CommandRejected, match="skip"):
            await trail.flow("f").step("c", "continue", by="ana", targets=["y"])
        await trail.flow("f").step("c", "skip", by="ana", targets=["y"])
        result = await trail.flow("f").resume(built)
    assert (result.status, world.done) == (ExecutionStatus.COMPLETED, {"y": 1})


async def test_a_function_that_returns_nothing_has_the_output_none() -> None:
    result, _ = await played(Workflow("t").function("a", lambda _: None, output="a").build())
    assert (result.status, result.envelope.vars) == (ExecutionStatus.COMPLETED, {"a": None})


async def test_a_step_is_held_beside_others_that_run_on() -> None:
    world, clock = World(), HandClock()
    flow = Workflow("t").noop("start").function("x", world.function("x")).function("y", world.function("y"))
    built = flow.edge("start", "x", "y").build()
    async with trail_of(clock) as trail:
        result = await trail.run(built, session="f", options=RunOptions(pause_before=("x",), longest_wait=0.0))
        assert (result.status, world.done) == (ExecutionStatus.WAITING, {"y": 1})


@pytest.mark.parametrize("named", ["receipt.id", "vars.receipt.id"])
async def test_the_result_of_a_workflow_is_named_as_any_other_path(named: str) -> None:
    flow = Workflow("t", result=named).function("pay", lambda _: {"id": 7}, output="receipt").noop("end")
    result, _ = await played(flow.chain("pay", "end").build())
    assert result.output == 7
