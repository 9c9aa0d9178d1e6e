"""What comes from outside is refused at the door, or fails its call, and never makes a session that cannot be read."""

import asyncio
import math
from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec import structs

from steptrail import AgentBuilder, Limits, Message, Steptrail
from steptrail.domain.base import CENTURY_SECONDS
from steptrail.domain.flow.events import NodeAttemptFailed
from steptrail.domain.inference import FinishReason, ModelReply, ModelRequest
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ToolSpec
from steptrail.domain.usage import Usage
from steptrail.errors import (
    AmbiguousId,
    ConfigurationError,
    InvalidSetting,
    NotStorable,
    SessionNotFound,
    SteptrailError,
)
from steptrail.interfaces.python.sync import SyncSession
from steptrail.messages import MessageRole, ProviderPart, TextPart, ToolCallPart
from steptrail.runtime.agent.tool_port import Capture, ToolContext, ToolOutcome, ToolSucceeded
from steptrail.testing import ScriptedModel, call, say
from steptrail.tools import tool
from steptrail.workflow import Check, FailureClass, RunOptions, Workflow

HALF = "half \ud800"
HUGE = 10**4299
REFUSED: list[tuple[Any, str]] = [
    (HUGE, "an integer of more than 4299 digits"),
    (math.nan, "the number nan"),
    (b"x", "bytes"),
    (HALF, "text that is not valid Unicode"),
    ({1: 2}, "a key of type int"),
]


def agent(*replies: Any) -> AgentBuilder:
    return AgentBuilder("a").with_model(ScriptedModel(list(replies) or ["done"]))


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return "paid"


@pytest.mark.parametrize(("value", "what"), REFUSED, ids=[what for _, what in REFUSED])
def test_metadata_that_could_not_be_read_again_begins_nothing(value: Any, what: str) -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        with pytest.raises(NotStorable, match=rf"at metadata\.deep\[0\].*{what}") as refused:
            trail.run(agent().build(), "Go.", session="s", metadata={"deep": [value]})
        assert refused.value.place.startswith("metadata.deep[0]")
        assert trail.runs() == []
        trail.run(agent().build(), "Go.", session="s", metadata={"largest": HUGE - 1})
        assert (trail.session("s").state()).metadata == {"largest": HUGE - 1}
        with pytest.raises(NotStorable, match="at metadata"):
            trail.session("s").fork(metadata={"deep": value})


def test_text_that_is_no_text_is_refused_wherever_somebody_says_it() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        inputs: list[tuple[dict[str, Any], str]] = [
            ({"input": HALF}, "input.parts"),
            ({"input": Message(role=MessageRole.USER, name=HALF)}, "input.name"),
            ({"input": "Go.", "history": [Message.user(HALF)]}, "history.parts"),
            ({"input": "Go.", "key": HALF}, "key"),
        ]
        for given, place in inputs:
            with pytest.raises(NotStorable) as refused:
                trail.run(agent().build(), **given)
            assert refused.value.place.startswith(place)
        trail.run(agent(call("pay", cents=1), "done").with_tools(pay).build(), "Go.", session="s")
        session = trail.session("s")
        for command, place in says(session):
            with pytest.raises(NotStorable) as refused:
                command()
            assert refused.value.place == place
        with pytest.raises(SessionNotFound):
            trail.find(HALF)
        assert (session.state()).status == "waiting"
    with pytest.raises(ConfigurationError, match="not understood"):
        Steptrail.open(f"sqlite:///{HALF}")


def says(session: SyncSession) -> list[tuple[Callable[[], Any], str]]:
    asked = "s:1:1:0"
    return [
        (lambda: session.send(agent().build(), "More.", by=HALF), "by"),
        (lambda: session.send(agent().build(), "More.", by="nul\0"), "by"),
        (lambda: session.pause(by=HALF), "by"),
        (lambda: session.stop(by="ops", reason=HALF), "reason"),
        (lambda: session.approve(asked, by=HALF), "by"),
        (lambda: session.approve(asked, by="ana", arguments={"cents": HUGE}), "arguments.cents"),
        (lambda: session.deny(asked, by="ana", reason=HALF), "reason"),
        (lambda: session.settle(asked, "completed", result=[math.nan]), "result[0]"),
        (lambda: session.settle(asked, "failed", message=HALF), "message"),
    ]


ARGUMENTS: list[JsonValue] = [HUGE, HALF]


@pytest.mark.parametrize("value", ARGUMENTS, ids=["huge", "half"])
def test_a_reply_that_could_not_be_read_again_is_a_failure_of_the_model(value: Any) -> None:
    parts = (
        ToolCallPart(id="c", name="pay", arguments={"cents": value}),
        ProviderPart(provider="p", data={"x": [value]}),
        *((TextPart(text=value),) if isinstance(value, str) else ()),
    )
    for part in parts:

        def reply(request: ModelRequest, part: Any = part) -> ModelReply:
            return structs.replace(say(""), parts=(part,))

        with Steptrail.open_sync("sqlite:///:memory:") as trail:
            result = trail.run(agent(reply).with_tools(pay).build(), "Go.", session="s")
            assert (result.status, result.stop_reason) == ("failed", "error")
            assert (trail.session("s").state()).version == result.state.version


@pytest.mark.parametrize(("value", "what"), REFUSED, ids=[what for _, what in REFUSED])
def test_a_result_of_a_tool_of_ones_own_that_could_not_be_read_again_fails_the_call(value: Any, what: str) -> None:
    class Own:
        spec = ToolSpec(name="plain")

        async def run(
            self, arguments: Any, raw: str | None, context: ToolContext, *, timeout: float | None, capture: Capture
        ) -> ToolOutcome:
            return ToolSucceeded({"deep": [value]})

    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(agent(call("plain"), "done").with_tools(Own()).build(), "Go.", session="s")
        error = result.state.steps[0].tool_executions[0].error
        assert error is not None
        assert f"{what} has no JSON form" in error.message
        assert (trail.session("s").state()).version == result.state.version


def test_an_error_repeats_no_more_of_an_id_than_anybody_reads() -> None:
    huge = "x" * 1_000_000
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        for session in ("one-1", "one-2"):
            trail.run(agent(call("pay", cents=1), "done").with_tools(pay).build(), "Go.", session=session, key="k")
        with pytest.raises(AmbiguousId, match=r"the id 'one-' fits 2 sessions \(one-1, one-2\)"):
            trail.find("one-")
        for ask in (
            lambda: trail.find(huge),
            lambda: trail.session(huge),
            lambda: trail.session("one-1").approve(huge, by="ana"),
            lambda: trail.session("one-1").settle(huge, "tell"),
            lambda: trail.follower(huge),
        ):
            with pytest.raises(SteptrailError) as refused:
                ask()
            assert len(str(refused.value)) < 500
    with pytest.raises(SteptrailError) as refused:
        Steptrail.open(f"mysql://{huge}")
    assert len(str(refused.value)) < 500


def round_itself() -> list[Any]:
    whole: list[Any] = []
    whole.append(whole)
    return whole


class Mute:
    """A value that has no words."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "reply",
    [
        lambda: structs.replace(say("Hi."), response_id=round_itself()),
        lambda: structs.replace(say("Hi."), parts=(TextPart(text=round_itself()),)),  # type: ignore[arg-type]
        lambda: structs.replace(say("Hi."), parts=(ToolCallPart(id="1", name=Mute(), arguments={}),)),  # type: ignore[arg-type]
    ],
)
def test_a_reply_that_cannot_be_looked_through_fails_its_call(reply: Callable[[], ModelReply]) -> None:
    def given(_: ModelRequest) -> ModelReply:
        return reply()

    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        result = trail.run(agent(given).build(), "Go.", session="s")
        assert result.status == "failed"
        assert trail.session("s").why().status == "failed"


@pytest.mark.parametrize(
    "reply",
    [
        structs.replace(say("x"), usage=Usage(input=cast("int", "many"), output=1)),
        structs.replace(say("x"), usage=Usage(input=-5, output=1)),
        structs.replace(say("x"), finish_reason=FinishReason.LENGTH, raw_finish_reason=HALF),
        structs.replace(say("x"), response_model=HALF),
        say(HALF),
    ],
)
def test_a_reply_to_a_workflow_that_cannot_be_stored_fails_its_node(reply: ModelReply) -> None:
    asking = Workflow("w").llm("l", ScriptedModel([reply]), prompt="?", retry=1).build()
    choosing = (
        Workflow("w")
        .llm_router("l", ScriptedModel([reply]), prompt="?", routes={"a": "n"}, retry=1)
        .noop("n")
        .edge("l", "n")
        .build()
    )
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        for name, flow in (("asking", asking), ("choosing", choosing)):
            assert trail.run(flow, session=name).status == "failed"
            (failed,) = [r.event for r in trail.flow(name).history() if isinstance(r.event, NodeAttemptFailed)]
            assert failed.failure is FailureClass.MODEL
            assert trail.flow(name).why().status == "failed"


def test_a_function_that_decides_and_cancels_itself_fails_its_node() -> None:
    def decides(value: object) -> bool:
        raise asyncio.CancelledError(value)

    flow = Workflow("w").guardian("g", [Check("expr", path="input", when=decides)]).build()
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        assert trail.run(flow, 1, session="f").status == "failed"
        (failed,) = [r.event for r in trail.flow("f").history() if isinstance(r.event, NodeAttemptFailed)]
        assert "cancelled itself" in failed.error.message


@pytest.mark.parametrize("field", ["timeout", "cumulative_timeout", "stop_grace", "longest_wait"])
@pytest.mark.parametrize("settings", [Limits, RunOptions])
def test_a_time_whose_end_is_no_date_is_refused(settings: Callable[..., object], field: str) -> None:
    with pytest.raises(InvalidSetting, match=rf"{field}: Expected `float` <= .*, not 1e\+300"):
        settings(**{field: 1e300})
    agent_of = agent().with_limits(Limits(timeout=CENTURY_SECONDS, cumulative_timeout=CENTURY_SECONDS)).build()
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        assert trail.run(agent_of, "Go.").status == "completed"
