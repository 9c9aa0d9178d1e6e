"""What is given in the place of an agent, a model or a text is refused in one line that says what to give."""

import inspect
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Limits, Message, Steptrail, SteptrailError, tool
from steptrail.continuation import (
    CallableCriterion,
    CostLimit,
    ErrorPolicyCriterion,
    FinishReasonCheck,
    ResponseContentCheck,
    StepsLimit,
)
from steptrail.domain.inference import ModelRequest
from steptrail.errors import Backoff, ConfigurationError, SessionNotFound
from steptrail.hooks import (
    CallableHook,
    CallableMatcher,
    CompositeMatcher,
    CriterionHook,
    Critique,
    EventTypeMatcher,
    SelfCritic,
    ToolBlockingHook,
    ToolNameMatcher,
    ToolNameRegexMatcher,
)
from steptrail.lifecycle import DecisionTaken
from steptrail.messages import ToolCallPart
from steptrail.models import PriceTable
from steptrail.serialization import FullAgentStateSerializer, SlimAgentStateSerializer
from steptrail.testing import ManualClock, ScriptedModel, call, load_agent
from steptrail.tools import ToolRetry
from steptrail.ui import reconcile, ui_conversation
from steptrail.workflow import Workflow, drawn_flow, flow_text

BUILDER: Any = AgentBuilder("a").with_model(ScriptedModel(["hi"]))
AGENT = BUILDER.build()
FLOW: Any = Workflow("w").function("f", lambda envelope: 1)
HOOK = CallableHook(lambda state: state, "h")


def look() -> str:
    """Look."""
    return "nothing"


def _why(trail: Any, what: Any, execution: object) -> object:
    trail.run(what, "hi", session="s")
    return (trail.session("s") if what is AGENT else trail.flow("s")).why(execution=execution)


async def _is_more(text: str) -> bool:
    return text.endswith("more")


def _judge(task: str, answer: str) -> Critique:
    return Critique(approved=task != answer)


CALL: Any = ToolCallPart(id="1", name="look")
NAMED = ToolRetry(attempts=2, retry_on=("builtins:OSError",))
PRICES = PriceTable.of({"m": {"input": 1, "output": 1}}, version="1")


GIVEN: list[tuple[Callable[[Any], object], str]] = [
    (lambda trail: trail.run(BUILDER, "hi"), "what runs is an Agent, not AgentBuilder: `.build()` makes one of it"),
    (lambda trail: trail.run("gpt", "hi"), "what runs is an Agent, not str"),
    (lambda trail: trail.session("s").send(BUILDER, "hi"), "what runs is an Agent, not AgentBuilder: `.build()`"),
    (lambda trail: trail.session("s").resume(BUILDER), "what runs is an Agent, not AgentBuilder: `.build()`"),
    (lambda trail: trail.session("s").retry(BUILDER), "what runs is an Agent, not AgentBuilder: `.build()`"),
    (lambda trail: trail.run(FLOW, "hi"), "what runs is a built workflow, not Workflow: `.build()` makes one of it"),
    (lambda trail: trail.start(FLOW, "hi"), "what runs is a built workflow, not Workflow: `.build()` makes one of it"),
    (lambda trail: trail.session("s").resume(FLOW.build()), "what runs in a session is an Agent: `trail.flow(id)` has"),
    (lambda _: BUILDER.with_error_policy(ErrorPolicy.retry_all), "agent 'a': error_policy is of the class ErrorPolicy"),
    (lambda _: BUILDER.with_error_policy("stop"), "agent 'a': error_policy is of the class ErrorPolicy, not str"),
    (lambda _: BUILDER.with_limits(Limits), "agent 'a': limits is of the class Limits, not StructMeta"),
    (lambda _: BUILDER.with_limits({"max_steps": 3}), "agent 'a': limits is of the class Limits, not dict"),
    (
        lambda _: ErrorPolicy.retry_all().with_backoff(cast(Any, Backoff.exponential)),
        "ErrorPolicy: backoff: Expected",
    ),
    (lambda _: Limits(prices=cast(Any, look)), "Limits: prices: Expected `PriceTable`, not <function look"),
    (lambda _: tool(approval=cast(Any, look))(look), "tool function 'look' makes no tool: approval: Expected `Approva"),
    (lambda _: BUILDER.with_tools(look), "agent 'a': the function tests.runner.test_what_is_given.look is not a tool"),
    (lambda _: BUILDER.with_tools([look]), "agent 'a': list is not a tool; give each tool as an argument of its ow"),
    (lambda _: BUILDER.with_tools(AGENT), "agent 'a': Agent is not a tool; `@tool` makes one of a function, `Subagen"),
    (
        lambda _: SlimAgentStateSerializer(cast(Any, {})),
        "the configuration of a serializer is of the class SlimSeriali",
    ),
    (lambda _: SlimAgentStateSerializer().serialize(AGENT), "what is serialized is of the class AgentState"),
    (lambda _: FullAgentStateSerializer().serialize(AGENT), "what is serialized is of the class AgentState"),
    (lambda trail: ui_conversation(trail.run(AGENT, "hi")), "what a conversation is made of is of the class AgentStat"),
    (
        lambda trail: ui_conversation(trail.run(AGENT, "hi").state, cast(Any, {})),
        "config is of the class UiConfig, not d",
    ),
    (lambda _: reconcile(cast(Any, {}), cast(Any, {})), "what is reconciled is of the class UiConversation, not dict"),
    (lambda _: flow_text(FLOW.build()), "what is written is of the class FlowDefinition, not BuiltWorkflow"),
    (lambda _: drawn_flow(FLOW.build()), "what is drawn is of the class FlowDefinition, not BuiltWorkflow"),
    (lambda trail: trail.run(AGENT, None), "what is said to an agent is a text or a Message, not NoneType"),
    (lambda trail: trail.run(AGENT, 7), "what is said to an agent is a text or a Message, not int"),
    (lambda trail: trail.run(AGENT, "hi", history="hi"), "history: Expected a list, got `str`"),
    (lambda trail: trail.run(AGENT, "hi", history=[{"role": "user"}]), "a message of the history is of the class Mes"),
    (lambda trail: trail.start(AGENT, "hi", history=["hi"]), "a message of the history is of the class Message, not "),
    (lambda _: AgentBuilder("a").with_model("gpt-5-mini"), "agent 'a': 'gpt-5-mini' is no model: give a driver of"),  # type: ignore[arg-type]
    (lambda _: AgentBuilder("a").with_model(None), "agent 'a': NoneType is no model"),  # type: ignore[arg-type]
    (
        lambda _: BUILDER.with_model(ScriptedModel),
        "agent 'a': ScriptedModel is a class, and a model is an object",
    ),
    (lambda _: AgentBuilder(cast(Any, None)), "the name of an agent is a text, not NoneType"),
    (lambda _: BUILDER.with_system_prompt(None), "agent 'a': the system prompt is a text, not NoneType"),
    (lambda _: BUILDER.with_examples("hi"), "agent 'a': what `with_examples` shows is of the class Message, not str"),
    (
        lambda _: BUILDER.with_earlier_tool_traces("no"),
        "agent 'a': what `with_earlier_tool_traces` is given is True or",
    ),
    (lambda _: BUILDER.with_tool_choice("must"), "agent 'a': 'must' is not a valid ToolChoice; the choices are auto, "),
    (lambda _: BUILDER.with_hook("stop", HOOK, matcher="read_*"), "'read_*' is not a matcher: give one of"),
    (lambda _: BUILDER.with_hook("stop", HOOK, priority="high"), "the priority of a hook is a whole number, not str"),
    (lambda _: BUILDER.with_hook("stop", SimpleNamespace(handle=1)), "namespace(handle=1) is not a hook: it needs"),
    (lambda _: BUILDER.with_capability(None), "agent 'a': None is no capability: it needs `add_to(builder)`; give an"),
    (lambda _: BUILDER.with_capability(SelfCritic), "agent 'a': <class 'steptrail.runtime.agent.self_critic.SelfCrit"),
    (lambda _: ToolBlockingHook(cast(Any, None)), "the tools of a ToolBlockingHook: Expected a list, got `NoneType`"),
    (lambda _: ToolBlockingHook(cast(Any, [7])), "the name of a tool that a ToolBlockingHook blocks is a text, not in"),
    (lambda _: CriterionHook(cast(Any, len)), "<built-in function len> is not a criterion: it has neither `explain("),
    (lambda _: CriterionHook(cast(Any, StepsLimit)), "StepsLimit is a class: a criterion is an instance of it"),
    (lambda _: EventTypeMatcher(cast(Any, "pre_tool")), "a hook: 'pre_tool' is not a valid HookType; the types are "),
    (lambda _: ToolNameMatcher(cast(Any, ["read"])), "the pattern of a ToolNameMatcher is a text, not list"),
    (lambda _: ToolNameRegexMatcher(cast(Any, 7)), "the pattern of a ToolNameRegexMatcher is a text, not int"),
    (lambda _: CallableMatcher(cast(Any, None)), "what a CallableMatcher asks is a function, not NoneType"),
    (lambda _: CallableMatcher(cast(Any, look)), "what a CallableMatcher asks is called with the state "),
    (
        lambda _: CallableHook(cast(Any, look)),
        "what a CallableHook calls is called with the state, which look ",
    ),
    (
        lambda _: CallableCriterion(cast(Any, look)),
        "what a CallableCriterion asks is called with the state, which ",
    ),
    (lambda _: ResponseContentCheck(cast(Any, look)), "what a ResponseContentCheck asks is called with the re"),
    (lambda _: SelfCritic(cast(Any, look)), "the judge of a self-critic is called with the task and t"),
    (
        lambda _: BUILDER.with_output(int).with_output_validator(look),
        "a validator is called with the answer and its context, which ",
    ),
    (lambda trail: trail.run(AGENT, "hi", on_update=look), "`on_update` is called with an update, which "),
    (lambda trail: trail.run(AGENT, "hi", on_commit=look), "`on_commit` is called with the records of a com"),
    (lambda trail: trail.on(DecisionTaken, look), "a listener is called with the event, which "),
    (lambda _: CompositeMatcher.or_(cast(Any, "read_*")), "'read_*' is not a matcher: give one of"),
    (lambda _: CallableHook(cast(Any, None)), "what a CallableHook calls is a function, not NoneType"),
    (lambda _: CallableCriterion(cast(Any, True)), "what a CallableCriterion asks is a function, not bool"),
    (lambda _: CallableCriterion(bool, name=cast(Any, 7)), "the name of a CallableCriterion is a text, not int"),
    (lambda _: CallableCriterion(bool, is_guard=cast(Any, "false")), "`is_guard` is True or False, not 'false'"),
    (lambda _: CostLimit(cast(Any, 5), PRICES), "the max_usd of a CostLimit is of the class Decimal, not int"),
    (lambda _: CostLimit(Decimal(1), cast(Any, {})), "what a CostLimit counts by is of the class PriceTable, not dict"),
    (
        lambda _: CostLimit(Decimal(1), PRICES, cast(Any, "warning")),
        "unpriced is one of fail_closed, warn, ignore",
    ),
    (lambda _: ErrorPolicyCriterion(cast(Any, "stop")), "what an ErrorPolicyCriterion asks is of the class ErrorPolic"),
    (lambda _: FinishReasonCheck(cast(Any, 5)), "finish reasons: Expected a list, got `int`"),
    (lambda _: FinishReasonCheck(cast(Any, [5])), "a finish reason is a text, not int"),
    (lambda _: ResponseContentCheck(cast(Any, "more")), "what a ResponseContentCheck asks is a function, not str"),
    (lambda _: ResponseContentCheck(cast(Any, _is_more)), "what a ResponseContentCheck asks is a plain function, and"),
    (lambda _: CompositeMatcher(cast(Any, "all"), ()), "what combines matchers is a function, not str"),
    (lambda _: CompositeMatcher(all, cast(Any, None)), "matchers: Expected a list, got `NoneType`"),
    (lambda _: SelfCritic(_judge, instructions=cast(Any, 7)), "the instructions of a self-critic is a text, not int"),
    (lambda _: SelfCritic(cast(Any, None)), "the judge of a self-critic: NoneType is no model: give a driver of"),
    (lambda _: SelfCritic(cast(Any, "gpt-5-mini")), "the judge of a self-critic: 'gpt-5-mini' is no model: give a"),
    (lambda _: SelfCritic(cast(Any, ScriptedModel)), "the judge of a self-critic: ScriptedModel is a class, and a mo"),
    (lambda _: tool(retry=2, retry_on=cast(Any, OSError))(look), "retry_on of a tool is a tuple of classes of except"),
    (lambda _: tool(retry=2, retry_on=cast(Any, ("OSError",)))(look), "retry_on of a tool is a tuple of classes of e"),
    (lambda _: tool(retry=2, retry_on=cast(Any, (int,)))(look), "retry_on of a tool is a tuple of classes of excepti"),
    (lambda _: tool(retry_on=(OSError,))(look), "retry_on of a tool has no effect without `retry`, which says how man"),
    (lambda _: tool(retry=NAMED)(look), "the exceptions of a tool's rule are classes, given beside it as `retry_on`"),
    (lambda _: ScriptedModel(cast(Any, None)), "model 'scripted': the script: Expected a list, got `NoneType`"),
    (lambda _: load_agent(cast(Any, 5)), "a reference to an agent is a text, not int"),
    (lambda _: ScriptedModel("done"), "model 'scripted': the script: Expected a list, got `str`"),
    (lambda _: ScriptedModel([ValueError]), "model 'scripted': reply 1 of the script is the class ValueError: give a"),
    (
        lambda _: Message.assistant(CALL),
        "a message is made of a text, not of ToolCallPart; tool calls are given as",
    ),
    (lambda _: Message.assistant("Hm.", tool_calls=cast(Any, 7)), "`tool_calls`: Expected a list, got `int`"),
    (lambda trail: trail.runs(after=0), "the name of a run is a text, not int"),
    (lambda trail: trail.inbox(after=0), "the name of a run is a text, not int"),
    (lambda _: ManualClock(datetime(2027, 1, 1)), "a clock begins at a datetime with a time zone, not at datetime.dat"),  # noqa: DTZ001
    (lambda _: ManualClock(cast(Any, 7)), "a clock begins at a datetime with a time zone, not at 7"),
    (lambda trail: _why(trail, AGENT, ["s:1"]), "there is no execution ['s:1'] in the session: it has s:1"),
    (lambda trail: _why(trail, FLOW.build(), ["s:1"]), "s has no execution ['s:1']: it has 1"),
    (lambda _: Message.user(CALL), "a message is made of a text, not of ToolCallPart"),
]


@pytest.mark.parametrize(("give", "why"), GIVEN)
def test_one_line_says_what_to_give(give: Callable[[Any], object], why: str) -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail, pytest.raises(ConfigurationError) as refused:
        give(trail)
    assert str(refused.value).startswith(why)
    assert "\n" not in str(refused.value)


def test_calls_of_tools_may_be_a_list() -> None:
    assert Message.assistant("Hm.", tool_calls=[CALL]) == Message.assistant("Hm.", tool_calls=(CALL,))


def test_a_list_of_replies_needs_no_annotation_and_what_is_none_is_refused_with_its_number() -> None:
    def says(request: ModelRequest) -> str:
        return "said"

    script = [call("look"), "done", ConnectionError("away"), says]
    ScriptedModel(script)
    with pytest.raises(ConfigurationError, match=r"^model 'scripted': reply 2 of the script is int: give a text"):
        ScriptedModel(["done", 3])


def test_the_help_of_run_can_be_read() -> None:
    shown = str(inspect.signature(Steptrail.run))
    assert "OnCommit" in shown
    assert len(shown) < 1200


def test_an_error_about_a_session_speaks_of_no_command_and_repeats_no_more_than_a_line() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail, pytest.raises(SessionNotFound) as missing:
        trail.session("nobody").state()
    assert str(missing.value) == "there is no session 'nobody' in this store"
    long: SteptrailError = SessionNotFound("x" * 10_000_000)
    assert len(str(long)) < 300


async def test_a_handle_of_the_other_kind_names_the_one_that_has_the_id() -> None:
    flow = Workflow("w").noop("only").build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(flow, {}, session="f")
        await trail.run(AgentBuilder("a").with_model(ScriptedModel(["Hi."])).build(), "go", session="a")
        session = trail.session("f")
        for ask in (session.state, session.events, session.why, partial(session.stop, by="ana")):
            with pytest.raises(SessionNotFound, match=r"the id is that of a workflow's run: `trail\.flow\(id\)`"):
                await ask()
        with pytest.raises(SessionNotFound, match=r"the id is that of an agent's session: `trail\.session\(id\)`"):
            await trail.flow("a").state()


def test_tools_of_which_one_is_refused_are_all_left_out_and_can_be_given_again() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "42"

    builder = AgentBuilder("a").with_model(ScriptedModel(["Hi."]))
    with pytest.raises(ConfigurationError):
        builder.with_tools(look, cast("Any", "no tool"))
    with pytest.raises(ConfigurationError):
        builder.with_tools(look, look)
    assert [*builder.with_tools(look).build().tools] == ["look"]
