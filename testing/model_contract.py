"""What every model driver must do, as a pytest class. Subclass it and give it three fixtures."""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from steptrail.domain.failures import ErrorType
from steptrail.domain.inference import FinishReason, ModelRequest
from steptrail.domain.messages import Message, ToolCallPart
from steptrail.domain.tools import ToolSpec
from steptrail.runtime.capture import capture
from steptrail.runtime.ports import ModelDriver

__all__ = ["LOOKUP", "ModelDriverContract", "lookup_request"]

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


def lookup_request() -> ModelRequest:
    """Return a request that leaves the model nothing to do but call `lookup` for the order C3.

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
    return ModelRequest(messages=history, tools=[LOOKUP], tool_choice="required", parallel_tool_calls=False)


class ModelDriverContract:
    """Give it `driver`, `secret` (a credential that it holds) and `failing` (a driver whose calls all fail).

    No test makes more than two calls. Replace `loop` when the driver outlives a test.
    """

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
        assert secret not in info.model_dump_json()
        assert secret not in repr(driver)

    def test_a_question_is_answered_with_text(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], parameters={"max_tokens": 60})
        reply = loop.run(driver.infer(request))
        assert reply.text.strip()
        assert reply.tool_calls == ()
        assert reply.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        assert reply.raw_finish_reason

    def test_tokens_are_counted(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], parameters={"max_tokens": 5})
        usage = loop.run(driver.infer(request)).usage
        assert usage.input + usage.cache_read + usage.cache_write > 0
        assert usage.output + usage.reasoning > 0

    def test_a_required_tool_is_called_with_its_arguments(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        reply = loop.run(driver.infer(lookup_request()))
        assert [(call.name, call.arguments) for call in reply.tool_calls] == [("lookup", {"order": "C3"})]
        assert reply.tool_calls[0].id
        assert reply.finish_reason is FinishReason.TOOL_CALLS
        assert reply.text == ""

    def test_a_result_is_taken_back_and_answered(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        request = lookup_request()
        asked = loop.run(driver.infer(request))
        (call,) = asked.tool_calls
        history = [*request.messages, Message.assistant(tool_calls=(call,)), Message.tool(call.id, call.name, "paid")]
        reply = loop.run(driver.infer(ModelRequest(messages=history, tools=[LOOKUP], tool_choice="none")))
        assert reply.text.strip()
        assert reply.tool_calls == ()

    def test_what_fails_is_raised_and_not_returned(self, failing: ModelDriver, loop: asyncio.Runner) -> None:
        with pytest.raises(Exception, match=r".") as caught:
            loop.run(failing.infer(ModelRequest(messages=[Message.user("Say hello.")])))
        assert capture(caught.value, default=ErrorType.UNKNOWN, now=0.0).type is not ErrorType.UNKNOWN

    def test_no_time_left_is_a_timeout(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        request = ModelRequest(messages=[Message.user("Say hello.")], timeout=0.0)
        with pytest.raises(Exception, match=r".") as caught:
            loop.run(driver.infer(request))
        assert capture(caught.value, default=ErrorType.MODEL, now=0.0).type is ErrorType.TIMEOUT

    def test_closing_twice_is_safe(self, driver: ModelDriver, loop: asyncio.Runner) -> None:
        loop.run(driver.close())
        loop.run(driver.close())
