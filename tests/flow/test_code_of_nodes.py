"""What a node makes of the code that it calls: of the rules and the time of a tool, and of a model."""

import asyncio

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.flow.nodes import MapNode, ToolNode
from steptrail.errors import Backoff, ConfigurationError
from steptrail.models import ModelInfo
from steptrail.testing import Reply, ScriptedModel, call, say
from steptrail.tools import ToolRetry
from steptrail.workflow import FailureClass, FlowTool, RetryPolicy, Workflow
from tests.flow.kit import events_of, named, run_to_rest
from tests.runner.kit import HandClock, trail_of

RULE = ToolRetry(attempts=3, backoff=Backoff.exponential(0.01))


class Declined(Exception):
    """What does not pass by itself."""


@pytest.mark.parametrize(("error", "tries"), [(ConnectionError("away"), 3), (Declined("no"), 1), (TimeoutError(), 1)])
async def test_a_tool_is_tried_again_after_the_exceptions_of_its_rule_alone(error: Exception, tries: int) -> None:
    @tool(effect=ToolEffect.KEYED, retry=RULE, retry_on=(ConnectionError,))
    async def pay() -> None:
        """Fail."""
        raise error

    clock = HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, Workflow("t").tool("pay", pay).build())
        events = await events_of(trail)
    assert result.error is not None
    assert (named(events).count("node.attempt.started"), result.error.attempt) == (tries, tries)


@pytest.mark.parametrize(("node", "tries"), [(RetryPolicy(), 1), (RetryPolicy(retry_on=(FailureClass.TOOL,)), 3)])
async def test_a_node_that_names_classes_has_the_last_word(node: RetryPolicy, tries: int) -> None:
    @tool(effect=ToolEffect.KEYED, retry=RULE, retry_on=(ConnectionError,))
    async def pay() -> None:
        """Fail."""
        raise Declined("no")

    clock = HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, Workflow("t").tool("pay", pay, retry=node).build())
    assert result.error is not None
    assert result.error.attempt == tries


@pytest.mark.usefixtures("impatient")
async def test_a_tool_that_ignores_the_end_of_its_own_time_is_left_behind_and_tried_again_by_its_rule_alone() -> None:
    released = asyncio.Event()

    @tool(effect=ToolEffect.READ, timeout=0.01, retry=RULE, retry_on=(ConnectionError,))
    async def deaf() -> None:
        """Hear nothing."""
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(Workflow("t").tool("deaf", deaf).build())
        released.set()
    assert result.error is not None
    assert result.error.attempt == 1
    assert (result.error.failure, result.error.error and result.error.error.message) == (
        FailureClass.TIMEOUT,
        "it did not end within 0.01 s",
    )


@pytest.mark.parametrize(("name", "status", "tries"), [("AuthenticationError", 401, 1), ("ConflictError", 409, 3)])
async def test_a_model_is_not_asked_again_after_an_error_that_comes_every_time(
    name: str, status: int, tries: int
) -> None:
    error = type(name, (Exception,), {"__module__": "openai", "status_code": status})("wrong")
    model, clock = ScriptedModel([error] * 3), HandClock()
    async with trail_of(clock) as trail:
        result = await run_to_rest(trail, clock, Workflow("t").llm("ask", model, prompt="Well?").build())
    assert result.error is not None
    assert (len(model.requests), result.error.attempt, result.error.failure) == (tries, tries, FailureClass.MODEL)


async def test_what_a_message_of_a_model_call_holds_is_written_as_in_a_prompt() -> None:
    model = ScriptedModel(["Yes.", "Yes."])
    flow = (
        Workflow("t")
        .llm("a", model, prompt="{{ vars.doc }}")
        .llm("b", model, messages=[{"role": "system", "content": "Be brief."}, {"content": "{{ vars.doc }}"}])
        .chain("a", "b")
        .build()
    )
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(flow, vars={"doc": {"is_new": True, "by": None}})
    assert [request.messages[-1].text for request in model.requests] == ['{"is_new":true,"by":null}'] * 2


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"role": "user", "text": "Hi."}, r"messages\[0\]: a message has a role and a content, and no 'text'"),
        ({"role": "user"}, r"messages\[0\]\.content is a text, not NoneType"),
        ({"content": [{"type": "text", "text": "Hi."}]}, r"messages\[0\]\.content is a text, not list"),
    ],
)
def test_a_message_of_a_model_call_that_says_nothing_is_refused(message: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Workflow("t").llm("a", ScriptedModel([]), messages=[message])


def test_a_tool_with_a_time_of_its_own_or_with_a_stream_below_has_no_other_of_its_node() -> None:
    @tool(effect=ToolEffect.READ, timeout=120.0)
    def patient() -> None:
        """Take two minutes."""

    @tool(effect=ToolEffect.READ)
    def any_time() -> None:
        """Take what time it takes."""

    below = FlowTool(Workflow("below").noop("a").build())
    flow = (
        Workflow("t")
        .tool("a", patient)
        .tool("b", any_time)
        .tool("c", patient, timeout=7)
        .tool("d", below)
        .map("e", over="input", tool=patient)
    )
    *nodes, mapped = flow.nodes
    assert isinstance(mapped, MapNode)
    timeouts = [node.timeout for node in (*nodes, mapped.node) if isinstance(node, ToolNode)]
    assert timeouts == [None, 30.0, 7.0, None, None]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (call("look", place="here"), "the reply of scripted has no text: tool_calls"),
        (say("", finish_reason="other"), "the reply of scripted has no text: other"),
        (say(" \n", finish_reason="tool_calls"), "the reply of scripted has no text: tool_calls"),
        (say("", finish_reason="stop"), None),
        (say("Yes.", finish_reason="other"), None),
    ],
)
async def test_a_reply_that_says_nothing_is_no_answer_unless_the_model_is_done(reply: Reply, said: str | None) -> None:
    model = ScriptedModel([reply])
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(Workflow("t").llm("ask", model, prompt="Well?").build())
    assert (result.error.message if result.error is not None else None) == said
    assert result.error is None or result.error.failure is FailureClass.INCOMPLETE


async def test_a_model_that_cannot_say_who_it_is_fails_its_node() -> None:
    class Moody(ScriptedModel):
        is_well = True

        def describe(self) -> ModelInfo:
            if not self.is_well:
                raise RuntimeError("no settings")
            return super().describe()

    model = Moody([say("x")])
    flow = Workflow("t").llm("a", model, prompt="x", on_error="continue").build()
    model.is_well = False
    async with trail_of() as trail:
        result = await trail.run(flow)
    assert [error.failure for error in result.errors] == [FailureClass.CONFIG]
    assert "cannot say who it is: RuntimeError('no settings')" in result.errors[0].message
