"""A run that is watched: text as it is written and tools as they go, and then the events that hold the whole."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from typing import Any, Self

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, ToolEffect, tool
from steptrail.domain.agent.events import AgentEvent, InferenceCompleted, InferenceFailed
from steptrail.domain.inference import ModelDelta, ModelInfo, ModelReply, ModelRequest
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.live import LiveUpdate, ReplyDelta, ToolProgress
from steptrail.errors import ConfigurationError
from steptrail.runtime.kernel.live_updates import OnUpdate
from steptrail.testing import ScriptedModel, calls, say
from steptrail.tools import ToolContext
from tests.harness.eager_tasks import EAGER, begin_tasks
from tests.runner.kit import Gated, agent_of, run, trail_of

Seen = Recorded[AgentEvent] | LiveUpdate
PATIENCE = 60
"""Seconds until a test that would wait for ever fails instead."""


@tool(effect=ToolEffect.READ)
def count(to: int, context: ToolContext) -> int:
    """Count, on a thread, and say so."""
    for number in range(1, to + 1):
        context.progress(f"at {number}", done=number, total=to)
    return to


@tool(effect=ToolEffect.READ)
async def peek(context: ToolContext) -> int:
    """Tell how many messages there were when the call began."""
    assert context.state is not None
    return len(context.state.messages)


async def watched(builder: AgentBuilder) -> list[LiveUpdate]:
    seen: list[LiveUpdate] = []
    async with trail_of() as trail:
        await trail.run(builder.build(), "go", session="s", on_update=seen.append)
    return seen


async def everything(trail: Steptrail, builder: AgentBuilder) -> list[Seen]:
    async with trail.stream(builder.build(), "go", session="s") as stream:
        return [each async for each in stream]


async def test_the_words_of_a_reply_come_as_they_are_written_and_the_last_piece_is_marked() -> None:
    deltas = await watched(agent_of(["It is late."]))
    assert [d.text for d in deltas if isinstance(d, ReplyDelta)] == ["It ", "is ", "late.", ""]
    assert [d.is_final for d in deltas if isinstance(d, ReplyDelta)] == [False, False, False, True]
    assert {(d.session_id, d.execution_id, d.step) for d in deltas if isinstance(d, ReplyDelta)} == {("s", "s:1", 1)}


async def test_nothing_of_a_tool_call_is_among_them() -> None:
    asking = calls(("add", {"a": 40, "b": 2}), text="Let me add.")
    deltas = await watched(agent_of([asking, "42"]))
    assert "".join(d.text for d in deltas if isinstance(d, ReplyDelta) and d.step == 1) == "Let me add."


@pytest.mark.parametrize("to", [1, 3])
async def test_a_tool_shows_how_far_it_has_come_from_its_thread(to: int) -> None:
    seen = await watched(agent_of([calls(("count", {"to": to})), "done"]).with_tools(count))
    steps = [(each.message, each.done, each.total) for each in seen if isinstance(each, ToolProgress)]
    assert steps == [(f"at {n}", n, to) for n in range(1, to + 1)]


async def test_words_that_are_no_text_for_others_are_shown_so_that_they_can_be_sent() -> None:
    @tool(effect=ToolEffect.READ)
    def read(context: ToolContext) -> str:
        """Read a file whose name is no UTF-8."""
        context.progress("caf\udce9.txt")
        return "read"

    model = ScriptedModel([calls(("read", {})), "It\ud83d is"])
    seen = await watched(AgentBuilder("a").with_model(model).with_tools(read))
    assert [each.message for each in seen if isinstance(each, ToolProgress)] == ["caf?.txt"]
    assert "".join(each.text for each in seen if isinstance(each, ReplyDelta)) == "It? is"


async def test_a_tool_may_report_when_nobody_watches_and_sees_the_state_of_its_session() -> None:
    ran = await run(agent_of([calls(("count", {"to": 2}), ("peek", {})), "done"]).with_tools(count, peek).build())
    assert ran.shown == ["2", "2"]


async def test_a_watcher_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(update: LiveUpdate) -> None:
        raise ValueError(update)

    async def scenario(watcher: OnUpdate) -> str | None:
        async with trail_of() as trail:
            return (await trail.run(agent_of(["It is late."]).build(), "go", on_update=watcher)).output

    with caplog.at_level(logging.WARNING, logger="steptrail"):
        assert await scenario(fail) == "It is late."
    assert caplog.text.count("a watcher failed on ReplyDelta of session") == 1


class Confused(ScriptedModel):
    """A driver whose `stream` returns what it is not to."""

    def __init__(self, made: Callable[[], object]) -> None:
        super().__init__(["It is late."])
        self._made = made

    def stream(self, request: ModelRequest) -> Any:
        return self._made()


async def texts() -> AsyncGenerator[str, None]:
    yield "It is"


class Unclosable:
    """An iterator such as those of SDKs, which is billed for what it has read, and cannot be closed."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ModelReply:
        raise AssertionError("it was read")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (texts, "`stream` of the model driver yielded str, not a ModelDelta"),
        (lambda: map(str, ()), "`stream` of the model driver returned map: write it with `yield`"),
        (Unclosable, "`stream` of the model driver returned Unclosable: write it with `yield`"),
    ],
)
async def test_a_driver_that_streams_something_else_is_told_what_it_should_be(
    made: Callable[[], object], why: str
) -> None:
    agent = AgentBuilder("c").with_model(Confused(made)).build()
    async with trail_of() as trail:
        result = await trail.run(agent, "How late is it?", on_update=lambda update: None)
    assert result.error is not None
    assert result.error.message == why


class Faltering:
    """A driver whose first stream breaks off: by an error, or by ending without a reply."""

    def __init__(self, *, ends: bool) -> None:
        self.streams, self._ends = 0, ends

    def describe(self) -> ModelInfo:
        return ModelInfo(driver="faltering", model="faltering")

    async def infer(self, request: ModelRequest) -> ModelReply:
        raise AssertionError(request)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        assert request.messages
        self.streams += 1
        yield ModelDelta("Wait", kind="reasoning")
        yield ModelDelta("It is")
        if self.streams == 1:
            if self._ends:
                return
            raise ConnectionResetError("no line")
        yield ModelDelta(" late.")
        yield say("It is late.")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("ends", [True, False])
async def test_a_stream_that_breaks_off_is_an_error_for_the_policy_and_the_next_try_begins_anew(ends: bool) -> None:
    builder = AgentBuilder("f").with_model(Faltering(ends=ends)).with_error_policy(ErrorPolicy.retry_all(2))
    async with trail_of() as trail:
        seen = await everything(trail, builder)
    said = [(each.step, each.kind, each.text) for each in seen if isinstance(each, ReplyDelta)]
    assert said == [
        (1, "reasoning", "Wait"),
        (1, "text", "It is"),
        (2, "reasoning", "Wait"),
        (2, "text", "It is late."),
        (2, "text", ""),
    ]
    events = [each.event for each in seen if isinstance(each, Recorded)]
    (failed,) = (event for event in events if isinstance(event, InferenceFailed))
    assert failed.error.retryable


async def test_a_stream_shows_every_event_in_order_and_the_text_before_the_event_that_holds_it() -> None:
    async with trail_of() as trail:
        seen = await everything(trail, agent_of([calls(("add", {"a": 1, "b": 2})), "It is late."]))
        stored = await trail.session("s").events()
    events = [each for each in seen if isinstance(each, Recorded)]
    assert [each.event for each in events] == [each.event for each in stored]
    text = next(i for i, each in enumerate(seen) if isinstance(each, ReplyDelta))
    whole = [i for i, e in enumerate(seen) if isinstance(e, Recorded) and isinstance(e.event, InferenceCompleted)]
    assert whole[0] < text < whole[1]


async def test_who_only_wants_the_result_need_not_look_and_a_slow_one_gets_the_text_in_fewer_pieces() -> None:
    async with trail_of() as trail, trail.stream(agent_of(["It is late."]).build(), "go") as stream:
        assert (await stream.result()).output == "It is late."
        assert [each.text for each in [each async for each in stream] if isinstance(each, ReplyDelta)] == [
            "It is late.",
            "",
        ]


async def test_what_nobody_has_fetched_of_a_long_reply_is_not_copied_with_each_piece() -> None:
    words = ["x" * 1_000 + " "] * 12
    async with trail_of() as trail, trail.stream(agent_of(["".join(words)]).build(), "go") as stream:
        await stream.result()
        texts = [each.text for each in [each async for each in stream] if isinstance(each, ReplyDelta)]
    assert texts == [*["".join(words[:4])] * 3, ""]


async def test_leaving_early_leaves_the_session_paused_and_it_goes_on_as_a_stream_too() -> None:
    never = ScriptedModel(["It is late."], delay=60.0)
    async with trail_of() as trail:
        async with trail.stream(AgentBuilder("a").with_model(never).build(), "go", session="s") as stream:
            async for _ in stream:
                break
        session = trail.session("s")
        assert (await session.state()).status == "paused"
        agent = agent_of(["It is late.", "Very."]).build()
        async with session.stream(agent) as stream:
            assert (await stream.result()).output == "It is late."
        async with session.stream(agent, "How late?") as stream:
            assert (await stream.result()).output == "Very."


async def test_a_stream_that_was_left_early_has_no_result_and_does_not_seem_to_cancel_who_asks_for_it() -> None:
    never = ScriptedModel(["It is late."], delay=60.0)
    async with trail_of() as trail:
        async with trail.stream(AgentBuilder("a").with_model(never).build(), "go", session="s") as stream:
            waiting = asyncio.ensure_future(stream.result())
            async for _ in stream:
                break
        with pytest.raises(ConfigurationError, match=r"left before the run had ended.*`session\.stream\(agent\)`"):
            await stream.result()
        with pytest.raises(ConfigurationError, match="left before the run had ended"):
            [each async for each in stream]
        with pytest.raises(ConfigurationError, match="left before the run had ended"):
            await waiting


async def test_what_the_run_raises_is_raised_at_the_end_and_by_the_result() -> None:
    async with trail_of() as trail:
        await trail.run(agent_of([calls(("add", {"a": 1, "b": 2}))]).with_max_steps(1).build(), "go", session="s")
        await trail.close()
        async with trail.stream(agent_of(["done"]).build(), "go", session="s") as stream:
            with pytest.raises(Exception, match="is closed"):
                [each async for each in stream]
            with pytest.raises(Exception, match="is closed"):
                await stream.result()


async def test_a_stream_is_entered_once_and_before_it_is_looked_at() -> None:
    async with trail_of() as trail:
        stream = trail.stream(agent_of(["done"]).with_tools().build(), "go")
        with pytest.raises(ConfigurationError, match="has not begun"):
            await stream.result()
        async with stream:
            await stream.result()
        with pytest.raises(ConfigurationError, match="entered before"):
            await stream.__aenter__()


async def test_a_stream_takes_no_listener_beside_the_one_who_iterates() -> None:
    async with trail_of() as trail:
        for listener in ("on_commit", "on_update"):
            given: dict[str, Any] = {listener: print}
            with pytest.raises(ConfigurationError, match=f"takes no `{listener}`: iterate over it"):
                trail.stream(agent_of(["done"]).build(), "go", **given)
        assert not await trail.runs()


async def test_a_thread_that_was_given_up_shows_nothing_any_more() -> None:
    given_up, has_reported = threading.Event(), threading.Event()

    @tool(effect=ToolEffect.READ, timeout=0.05)
    def hang(context: ToolContext) -> str:
        """Go on for longer than there is time."""
        context.progress("in time")
        given_up.wait(60)
        context.progress("late")
        has_reported.set()
        return "done"

    def answer(request: ModelRequest) -> str:
        given_up.set()
        assert has_reported.wait(60)
        return f"{len(request.messages)} messages"

    policy = ErrorPolicy.retry_all(2)
    seen = await watched(agent_of([calls(("hang", {})), answer]).with_tools(hang).with_error_policy(policy))
    assert [each.message for each in seen if isinstance(each, ToolProgress)] == ["in time"]
    assert isinstance(seen[-1], ReplyDelta)


async def test_a_word_is_seen_before_the_next_one_is_written_and_long_before_the_reply_is_stored() -> None:
    model = Gated("It ", "is ", "late.")
    async with trail_of() as trail, trail.stream(AgentBuilder("x").with_model(model).build(), "go") as stream:
        seen: list[str] = []
        for count in range(1, 4):
            model.gate.release()
            # Whoever waits for the reply waits for ever: the model does not go on before the word was seen.
            async with asyncio.timeout(PATIENCE):
                while len(seen) < count:
                    each = await anext(stream)
                    assert not isinstance(each, Recorded) or not isinstance(each.event, InferenceCompleted)
                    if isinstance(each, ReplyDelta):
                        seen.append(each.text)
            assert seen == ["It ", "is ", "late."][:count]
        model.gate.release()
        assert (await stream.result()).output == "It is late."


@pytest.mark.parametrize("eager", EAGER)
async def test_a_tools_progress_is_seen_while_it_runs(eager: bool) -> None:
    begin_tasks(eager=eager)
    seen = asyncio.Event()

    @tool(effect=ToolEffect.READ)
    async def careful(context: ToolContext) -> str:
        """Go on when somebody has seen how far it is."""
        context.progress("half way")
        await seen.wait()
        return "done"

    builder = agent_of([calls(("careful", {})), "done"]).with_tools(careful)
    async with trail_of() as trail, trail.stream(builder.build(), "go") as stream, asyncio.timeout(PATIENCE):
        async for each in stream:
            if isinstance(each, ToolProgress):
                seen.set()
        assert seen.is_set()
