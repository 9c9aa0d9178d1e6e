"""What is right to call passes both type checkers as it stands, with the types that are promised, and runs."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, assert_type

from pydantic import BaseModel, TypeAdapter

from steptrail import (
    Agent,
    AgentBuilder,
    ContinuationCriteria,
    ErrorPolicy,
    HookType,
    Limits,
    Message,
    RunResult,
    StepsLimit,
    Steptrail,
    StopReason,
    ToolContext,
    ToolEffect,
    tool,
)
from steptrail.continuation import (
    CallableCriterion,
    ContinuationDecision,
    ContinuationEvaluation,
    ContinuationOutcome,
    StateView,
)
from steptrail.domain.json_value import JsonValue
from steptrail.hooks import CallableHook, HookState, Next, StepsLimitHook, ToolBlockingHook, ToolNameMatcher
from steptrail.output import OutputContext
from steptrail.testing import Recording, Replay, ScriptedModel, call, replay, replayed
from steptrail.testing.pytest_plugin import Cassettes, TestTrail
from steptrail.tools import SubagentTool
from steptrail.workflow import FailureClass, RetryPolicy, RunOptions, Workflow


@tool
def plain(word: str, times: int = 2) -> str:
    """Say it again."""
    return word * times


@tool(name="later", effect=ToolEffect.KEYED, timeout=5.0)
async def later(context: ToolContext, number: int) -> list[int]:
    """Count."""
    return [number, context.attempt]


class Toolbox:
    @tool
    def open(self, lid: bool) -> str:
        """Open it."""
        return "open" if lid else "shut"


class OnlyDecides:
    def decide(self, state: StateView, /) -> ContinuationDecision:
        return ContinuationDecision.ALLOW if state.step_count < 9 else ContinuationDecision.FORBID


class OnlyExplains:
    def explain(self, state: StateView, /) -> ContinuationEvaluation | None:
        return None


class SyncHook:
    def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        return next(state.with_metadata("seen", True))


class AsyncHook:
    async def handle(self, state: HookState, next: Next, /) -> HookState:  # noqa: A002
        return next(state)


def by_function(state: HookState) -> HookState:
    return state


async def by_coroutine(state: HookState) -> HookState:
    return state


def build() -> Agent:
    builder = (
        AgentBuilder("typed")
        .with_model(ScriptedModel([call("plain", word="a"), lambda request: str(len(request.messages))]))
        .with_system_prompt("Be brief.")
        .with_examples(Message.user("hi"))
        .with_tools(plain, later, Toolbox().open)
        .with_tool_choice("auto", parallel=False)
        .with_limits(Limits(max_steps=5, timeout=None))
        .with_max_tokens(None)
        .with_cumulative_timeout(60)
        .with_error_policy(ErrorPolicy.retry_tool_errors(3))
        .with_criteria(OnlyDecides(), OnlyExplains(), CallableCriterion(lambda state: state.step_count < 5))
        .with_criteria(
            ContinuationCriteria(StepsLimit(5), ContinuationCriteria(OnlyDecides(), name="inner"), name="own")
        )
        .with_hook(HookType.BEFORE_STEP, StepsLimitHook(5), priority=200)
        .with_hook(HookType.AFTER_STEP, SyncHook())
        .with_hook(HookType.AFTER_STEP, AsyncHook())
        .with_hook(HookType.STOP, CallableHook(by_function))
        .with_hook(HookType.STOP, CallableHook(by_coroutine, "later"))
        .with_hook(HookType.PRE_TOOL_USE, ToolBlockingHook(["rm"]), matcher=ToolNameMatcher("r*"))
    )
    assert_type(builder, AgentBuilder)
    return builder.build()


def test_a_tool_is_still_called_as_its_function() -> None:
    assert_type(plain("a", times=3), str)
    assert_type(Toolbox().open(True), str)
    assert (plain("a"), Toolbox().open(lid=False)) == ("aa", "shut")


async def test_a_run_has_the_types_that_are_promised() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(build(), "go", session="s", metadata={"tier": 1})
        assert_type(result, RunResult)
        assert_type(result.stop_reason, StopReason | None)
        assert_type(result.output, str | None)
        assert_type(result.outcome, ContinuationOutcome | None)
        assert_type(result.state.messages, Sequence[Message])
        assert_type(result.state.metadata, Mapping[str, JsonValue])
        assert (result.status, result.output) == ("completed", "5")
        assert_type(await trail.session("s").send(build(), Message.user("and?")), RunResult)


class Invoice(BaseModel):
    number: str


def in_the_books(invoice: Invoice, context: OutputContext) -> Invoice:
    return invoice if context.attempt == 1 else invoice.model_copy()


async def in_order(invoice: Invoice, context: OutputContext) -> Invoice:
    return invoice


def typed() -> Agent[Invoice]:
    builder = AgentBuilder("typed").with_model(ScriptedModel(['{"number": "7"}'])).with_output(Invoice, mode="native")
    assert_type(builder, AgentBuilder[Invoice])
    assert_type(builder.with_output_validator(in_the_books, in_order).with_max_steps(3), AgentBuilder[Invoice])
    listed = AgentBuilder("lists").with_model(ScriptedModel([])).with_output(TypeAdapter(list[int]))
    assert_type(listed.build(), Agent[list[int]])
    assert_type(AgentBuilder("text"), AgentBuilder[str])
    return builder.build()


async def test_an_answer_in_a_type_has_that_type_without_a_cast() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        agent = typed()
        assert_type(agent, Agent[Invoice])
        result = await trail.run(agent, "go", session="s")
        assert_type(result, RunResult[Invoice])
        assert_type(result.output, Invoice | None)
        assert_type(result.output_json, Any)
        assert_type(result.text, str | None)
        assert_type(result.raise_for_stop().output, Invoice | None)
        session = trail.session("s")
        assert_type(await session.result(agent), RunResult[Invoice])
        assert_type(await session.result(), RunResult[Any])
        assert_type(await session.resume(agent), RunResult[Invoice])
        async with trail.stream(agent, "go", session="s") as stream:
            assert_type(await stream.result(), RunResult[Invoice])
        SubagentTool(agent)
        async with trail.work(agent, build()):
            pass
        assert result.output == Invoice(number="7")


def test_the_blocking_twin_has_the_type_of_an_answer_too() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(typed(), "go", session="s")
        assert_type(result, RunResult[Invoice])
        assert_type(trail.session("s").result(typed()), RunResult[Invoice])
        assert_type(trail.session("s").result(), RunResult[Any])
        assert result.output == Invoice(number="7")


async def test_an_answer_that_is_replayed_has_its_type_too() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(typed(), "go", session="s")
        recording = Recording("s", await trail.session("s").history())
    again = await replay(typed(), recording)
    assert_type(again, Replay[Invoice])
    assert_type(again.result.output, Invoice | None)
    assert_type(replayed(typed(), recording), Agent[Invoice])
    assert again.result.output == Invoice(number="7")


def test_what_a_test_runs_has_the_type_of_its_answer(steptrail_session: TestTrail) -> None:
    result = steptrail_session.run(typed(), "go")
    assert_type(result, RunResult[Invoice])
    assert result.output == Invoice(number="7")


def from_a_cassette(cassette: Cassettes) -> None:
    """Is read by type checkers, and not called: there is no recording."""
    assert_type(cassette.run(typed(), "go"), RunResult[Invoice])
    assert_type(cassette.run(told(), "go", context=Caller(tenant="acme")), RunResult[Invoice])


class Caller(BaseModel):
    tenant: str


class Shop:
    name = "shop"


@asynccontextmanager
async def open_shop(caller: Caller) -> AsyncGenerator[Shop]:
    assert_type(caller.tenant, str)
    yield Shop()


@tool
async def orders(status: str, context: ToolContext[Caller, Shop]) -> str:
    """Look at the orders."""
    assert_type(context.data, Caller)
    assert_type(context.resources, Shop)
    return f"{context.data.tenant} {context.resources.name} {status}"


@tool
def anything(context: ToolContext) -> str:
    """Need no context."""
    assert_type(context.data, object)
    return context.session_id


def reads(state: HookState) -> HookState:
    caller: Caller = state.data
    shop: Shop = state.resources
    return state.with_metadata("of", f"{caller.tenant} {shop.name}")


def judges(invoice: Invoice, context: OutputContext[Caller, Shop]) -> Invoice:
    assert_type(context.data, Caller)
    assert_type(context.resources, Shop)
    return invoice


def told() -> Agent[Invoice, Caller]:
    model = ScriptedModel([call("orders", status="late"), '{"number": "7"}', '{"number": "8"}'])
    builder = AgentBuilder("told").with_model(model).with_tools(orders, anything).with_output(Invoice, mode="native")
    assert_type(builder.with_context(TypeAdapter(list[int])), AgentBuilder[Invoice, list[int]])
    with_caller = builder.with_context(Caller).with_resources(open_shop).with_output_validator(judges)
    assert_type(with_caller, AgentBuilder[Invoice, Caller])
    agent = with_caller.with_hook(HookType.STOP, CallableHook(reads)).build()
    assert_type(agent, Agent[Invoice, Caller])
    assert_type(agent.replace(resources=open_shop), Agent[Invoice, Caller])
    return agent


async def test_a_context_and_resources_have_their_types_without_a_cast() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        agent = told()
        result = await trail.run(agent, "go", session="s", context=Caller(tenant="acme"))
        assert_type(result, RunResult[Invoice])
        assert_type(result.state.context, JsonValue)
        assert_type(await trail.run(agent, "go", session="s"), RunResult[Invoice])
        session = trail.session("s")
        assert_type(await session.send(agent, "more", context=Caller(tenant="acme")), RunResult[Invoice])
        assert_type(await session.resume(agent, context=Caller(tenant="beta")), RunResult[Invoice])
        await trail.start(agent, "go", session="t", context=Caller(tenant="acme"))
        assert dict((await session.state()).metadata) == {"of": "acme shop"}


def test_the_blocking_twin_takes_a_context_too() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(told(), "go", session="s", context=Caller(tenant="acme"))
        assert_type(result, RunResult[Invoice])
        assert result.state.context == {"tenant": "acme"}


def test_the_blocking_twin_has_the_same_types() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(build(), "go", session="s")
        assert_type(result, RunResult)
        assert_type(trail.session("s").why().stop_reason, str | None)
        assert dict(result.state.metadata) == {"seen": True}


def test_classes_of_failures_are_written_as_the_guides_write_them() -> None:
    policy, options = RetryPolicy(retry_on=("validation",)), RunOptions(continue_on_error=("timeout",))
    assert policy.retry_on == (FailureClass.VALIDATION,)
    assert options.continue_on_error == (FailureClass.TIMEOUT,)
    Workflow("t").noop("a", continue_on=("unavailable",))
