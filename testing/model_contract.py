"""The contract of a model driver, as pytest classes. Subclass one and give it three fixtures."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import pytest

from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import FinishReason, ModelDelta, ModelReply, ModelRequest, ToolChoice
from steptrail.domain.messages import Message, MessageRole, ToolCallPart
from steptrail.domain.tools import ToolSpec
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.kernel.ports import ModelDriver, StreamingModelDriver

_PATIENCE: Final = 30.0
"""Seconds after which a call that was cancelled counts as one that never ends."""

LOOKUP: Final = ToolSpec(
    name="lookup",
    description="Look up the state of an order.",
    parameters={
        "type": "object",
        "properties": {"order": {"type": "string", "enum": ["A1", "B2", "C3"]}},
        "required": ["order"],
        "additionalProperties": False,
    },
)
"""The one tool of the contract. Its argument is an enum, which also a small model gets right."""


_CALL: Final = ToolCallPart(id="call_a", name="lookup", arguments={"order": "A1"})
_OTHER: Final = ToolCallPart(id="call_b", name="lookup", arguments={"order": "B2"})
_BROKEN: Final = ToolCallPart(id="call_c", name="lookup", raw='{"order": ')
_INVENTED: Final = ToolCallPart(id="call_d", name="multi_tool_use.parallel", arguments={})
_ASKED: Final = Message.user("What is the state of order A1?")


def _went_wrong(text: str, *calls: ToolCallPart) -> list[Message]:
    return [Message.tool(call.id, call.name, text, is_error=True) for call in calls]


HISTORIES: Final[Mapping[str, Sequence[Message]]] = {
    "a model call failed and was tried again": [_ASKED],
    "a tool failed": [_ASKED, Message.assistant(tool_calls=(_CALL,)), *_went_wrong("no such order", _CALL)],
    "one of two calls was blocked": [
        _ASKED,
        Message.assistant("I look.", tool_calls=(_CALL, _OTHER)),
        Message.tool(_CALL.id, _CALL.name, "shipped"),
        *_went_wrong("blocked: not today", _OTHER),
    ],
    "the arguments were no JSON": [_ASKED, Message.assistant(tool_calls=(_BROKEN,)), *_went_wrong("no JSON", _BROKEN)],
    "paused in the middle of a step, spoken to and resumed": [
        Message.system("You answer questions about orders."),
        _ASKED,
        Message.assistant(tool_calls=(_CALL, _OTHER)),
        Message.tool(_CALL.id, _CALL.name, "shipped"),
        *_went_wrong("its outcome is unknown", _OTHER),
        Message.user("And order C3?"),
        Message.user("Be quick."),
    ],
    "stopped in the middle of a step, and asked something new": [
        _ASKED,
        Message.assistant(tool_calls=(_CALL,)),
        *_went_wrong("not run: ops stopped the run", _CALL),
        Message.user("Forget it. Say hello."),
    ],
    "a name was invented that no tool can have": [
        _ASKED,
        Message.assistant(tool_calls=(_INVENTED,)),
        *_went_wrong("there is no such tool", _INVENTED),
    ],
    "two calls of one reply have one id, and the calls of the next one too": [
        _ASKED,
        Message.assistant(tool_calls=(_CALL, _CALL)),
        Message.tool(_CALL.id, _CALL.name, "shipped"),
        Message.tool(_CALL.id, _CALL.name, "late"),
        Message.assistant(tool_calls=(_CALL, _CALL)),
        Message.tool(_CALL.id, _CALL.name, "lost"),
        Message.tool(_CALL.id, _CALL.name, "found"),
    ],
    "answered, and asked again": [_ASKED, Message.assistant("It is shipped."), Message.user("Are you sure?")],
    "the tool is gone": [
        _ASKED,
        Message.assistant(tool_calls=(_CALL,)),
        Message.tool(_CALL.id, _CALL.name, ""),
        Message.developer("Answer in one word."),
    ],
}
"""A conversation with failures, blocks, pauses and resumes behind it. No call is ever left without its result."""


def lookup_request() -> ModelRequest:
    """Return a request to which the only good reply is to call `lookup` for the order C3.

    Two worked examples stand before the question: a small model needs them, a large one does not mind.
    """
    history = [Message.system("You answer questions about orders.")]
    for number, (order, state) in enumerate((("A1", "shipped"), ("B2", "late")), 1):
        call = ToolCallPart(id=f"example{number}", name="lookup", arguments={"order": order})
        history += [
            Message.user(f"What is the state of order {order}?"),
            Message.assistant(tool_calls=(call,)),
            Message.tool(call.id, call.name, state),
            Message.assistant(f"Order {order} is {state}."),
        ]
    history.append(Message.user("What is the state of order C3?"))
    return ModelRequest(messages=history, tools=[LOOKUP], tool_choice=ToolChoice.REQUIRED, parallel_tool_calls=False)


class ModelDriverContract:
    """Give it `driver`, `secret` (a credential that it holds) and `failing` (a driver whose calls all fail).

    No test makes more than two calls, but that of the histories, one for each. Replace `loop` when the driver outlives
    a test.
    """

    most_tokens: str = "max_tokens"
    """The parameter that bounds the output."""

    @pytest.fixture
    def loop(self) -> Iterator[asyncio.Runner]:
        """Run the calls of a test. A driver is closed on the loop it was used on, so its fixture needs this one."""
        with asyncio.Runner() as runner:
            yield runner

    def test_describe_holds_no_credential(self, driver: ModelDriver, secret: str) -> None:
        info = driver.describe()
        assert info.driver
        assert info.model
        assert secret
        assert secret not in str(info)
        assert secret not in repr(driver)

    def test_a_question_is_answered_with_text(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], parameters={self.most_tokens: 60})
        reply = loop.run(driver.infer(request))
        assert reply.text.strip()
        assert reply.tool_calls == ()
        assert reply.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        assert reply.raw_finish_reason

    def test_tokens_are_counted(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], parameters={self.most_tokens: 16})
        usage = loop.run(driver.infer(request)).usage
        assert usage.input + usage.cache_read + usage.cache_write > 0
        assert usage.output + usage.reasoning > 0

    def test_a_required_tool_is_called_with_its_arguments_and_its_result_is_answered(
        self, driver: ModelDriver, loop: asyncio.Runner
    ) -> None:
        request = lookup_request()
        asked = loop.run(driver.infer(request))
        _is_the_call(asked)
        assert asked.text == ""
        reply = loop.run(driver.infer(_answered(request, asked)))
        assert reply.text.strip()
        assert reply.tool_calls == ()

    def test_every_history_of_a_session_is_taken(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        for name, history in HISTORIES.items():
            tools = [] if name == "the tool is gone" else [LOOKUP]
            request = ModelRequest(
                messages=history, tools=tools, tool_choice=ToolChoice.NONE, parameters={self.most_tokens: 20}
            )
            reply = loop.run(driver.infer(request))
            assert reply.finish_reason in (FinishReason.STOP, FinishReason.LENGTH), name

    def test_what_fails_is_raised_and_not_returned(self, failing: ModelDriver, loop: asyncio.Runner) -> None:
        with pytest.raises(Exception, match=r".") as caught:
            loop.run(failing.infer(ModelRequest(messages=[Message.user("Say hello.")])))
        assert capture(caught.value, default=ErrorType.UNKNOWN, now=0.0).type is not ErrorType.UNKNOWN

    def test_no_time_left_is_a_timeout(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], timeout=0.0)
        with pytest.raises(Exception, match=r".") as caught:
            loop.run(driver.infer(request))
        assert capture(caught.value, default=ErrorType.MODEL, now=0.0).type is ErrorType.TIMEOUT

    def test_a_call_that_is_cancelled_ends_so_and_leaves_the_driver_usable(
        self, driver: ModelDriver, loop: asyncio.Runner
    ) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], parameters={self.most_tokens: 60})

        async def cancel() -> None:
            task = asyncio.create_task(driver.infer(request))
            await asyncio.sleep(0.001)
            had_ended = task.done()
            task.cancel()
            await asyncio.wait({task}, timeout=_PATIENCE)
            assert task.done(), "the driver takes no notice of a cancellation"
            assert had_ended or task.cancelled(), "the driver makes something else of a cancellation"

        loop.run(cancel())
        assert loop.run(driver.infer(request)).text.strip()

    def test_closing_twice_is_safe(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        loop.run(driver.close())
        loop.run(driver.close())


class StreamingModelDriverContract(ModelDriverContract):
    """The same for a driver that streams, and what its streams must be. Each further test makes one or two calls."""

    def test_the_pieces_of_a_stream_are_the_text_and_last_comes_the_reply(
        self, driver: StreamingModelDriver, loop: asyncio.Runner
    ) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], parameters={self.most_tokens: 60})
        deltas, reply = loop.run(streamed(driver, request))
        assert reply.text.strip()
        assert "".join(delta.text for delta in deltas if delta.kind == "text") == reply.text
        assert all(delta.text for delta in deltas)
        assert reply.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        assert reply.raw_finish_reason
        assert reply.usage.input + reply.usage.cache_read + reply.usage.cache_write > 0
        assert reply.usage.output + reply.usage.reasoning > 0

    def test_a_streamed_tool_call_is_whole_and_no_piece_of_it_is_text(
        self, driver: StreamingModelDriver, loop: asyncio.Runner
    ) -> None:
        request = lookup_request()
        deltas, reply = loop.run(streamed(driver, request))
        assert [delta.text for delta in deltas if delta.kind == "text"] == []
        _is_the_call(reply)
        _, answered = loop.run(streamed(driver, _answered(request, reply)))
        assert answered.text.strip()

    def test_a_stream_that_is_left_early_leaves_the_driver_usable(
        self, driver: StreamingModelDriver, loop: asyncio.Runner
    ) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], parameters={self.most_tokens: 60})

        async def leave() -> None:
            async with aclosing(driver.stream(request)) as pieces:
                async for _ in pieces:
                    break

        loop.run(leave())
        assert loop.run(driver.infer(request)).text.strip()

    def test_what_fails_is_raised_by_the_stream(self, failing: StreamingModelDriver, loop: asyncio.Runner) -> None:
        with pytest.raises(Exception, match=r".") as caught:
            loop.run(streamed(failing, ModelRequest(messages=[Message.user("Say hello.")])))
        assert capture(caught.value, default=ErrorType.UNKNOWN, now=0.0).type is not ErrorType.UNKNOWN

    def test_no_time_left_for_a_stream_is_a_timeout(self, driver: StreamingModelDriver, loop: asyncio.Runner) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], timeout=0.0)
        with pytest.raises(Exception, match=r".") as caught:
            loop.run(streamed(driver, request))
        assert capture(caught.value, default=ErrorType.MODEL, now=0.0).type is ErrorType.TIMEOUT


async def streamed(driver: StreamingModelDriver, request: ModelRequest) -> tuple[list[ModelDelta], ModelReply]:
    """Return the pieces of a streamed reply, and the reply, which is the last thing that comes."""
    async with aclosing(driver.stream(request)) as stream:
        pieces = [piece async for piece in stream]
    deltas = [piece for piece in pieces if isinstance(piece, ModelDelta)]
    assert [type(piece) for piece in pieces[len(deltas) :]] == [ModelReply]
    reply = pieces[-1]
    assert isinstance(reply, ModelReply)
    return deltas, reply


def _is_the_call(reply: ModelReply) -> None:
    """Assert that a reply is the one call that is asked for."""
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("lookup", {"order": "C3"})]
    assert reply.tool_calls[0].id
    assert reply.finish_reason is FinishReason.TOOL_CALLS


def _answered(request: ModelRequest, asked: ModelReply) -> ModelRequest:
    """Return the request after the one call of a reply was answered, as a session makes it."""
    said, (call,) = Message(role=MessageRole.ASSISTANT, parts=asked.parts), asked.tool_calls
    history = [*request.messages, said, Message.tool(call.id, call.name, "paid")]
    return ModelRequest(messages=history, tools=[LOOKUP], tool_choice=ToolChoice.NONE)
