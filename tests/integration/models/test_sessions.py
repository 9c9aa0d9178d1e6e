"""Whole sessions over each protocol: whatever happens to a run, the next request is one that the provider takes."""

from collections.abc import Sequence
from typing import Any

import pytest
from openai import AsyncOpenAI

from steptrail import Agent, AgentBuilder, ErrorPolicy, HookType, Session, Steptrail, ToolEffect, tool
from steptrail.domain.json_value import JsonValue
from steptrail.domain.live import LiveUpdate, ReplyDelta
from steptrail.hooks import ToolBlockingHook
from steptrail.messages import ToolResultPart
from steptrail.runtime.agent.result import RunResult
from steptrail.testing.model_script import (
    ScriptedReply,
    answer,
    cut_off,
    failed_inside,
    json_body,
    not_json,
    overloaded,
    refused,
    sse_body,
    tool_calls,
    without_choices,
)
from steptrail.testing.model_server import ModelServer
from tests.integration.models.wires import DRIVERS, driver_of

every_protocol = pytest.mark.parametrize("protocol", DRIVERS)
ADD: tuple[str, dict[str, JsonValue]] = ("add", {"a": 1, "b": 2})


class Stage:
    """An agent over one protocol, and tools that act on their own session."""

    def __init__(self, protocol: str, server: ModelServer, trail: Steptrail) -> None:
        self.driver = driver_of(protocol, server)
        self.session: Session = trail.session("s")
        self.seen: list[LiveUpdate] = []

    def agent(self) -> Agent:
        @tool(effect=ToolEffect.READ)
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @tool(effect=ToolEffect.READ)
        def fail() -> None:
            """Fail."""
            raise ValueError("no such order")

        @tool
        async def pause() -> str:
            """Have the run paused."""
            await self.session.pause(reason="deploy")
            return "paused"

        @tool
        async def stop() -> str:
            """Have the run stopped."""
            await self.session.stop(by="ops")
            return "stopped"

        @tool
        def forbidden() -> None:
            """Never run."""

        policy = ErrorPolicy.retry_all(9)
        builder = AgentBuilder("clerk").with_model(self.driver).with_tools(add, fail, pause, stop, forbidden)
        builder = builder.with_system_prompt("You answer for the shop.").with_error_policy(policy)
        return builder.with_hook(HookType.PRE_TOOL_USE, ToolBlockingHook(["forbidden"], "not on Sundays")).build()


async def played(
    protocol: str, server: ModelServer, script: Sequence[ScriptedReply], inputs: Sequence[str]
) -> tuple[list[RunResult], list[LiveUpdate]]:
    """Say each input in turn, resuming whatever pauses, and return the results and what was seen."""

    server.play(script)
    async with Steptrail.open("sqlite:///:memory:") as trail:
        stage = Stage(protocol, server, trail)
        results: list[RunResult] = []
        try:
            for text in inputs:
                session = trail.session("s", on_update=stage.seen.append)
                if results:
                    result = await session.send(stage.agent(), text)
                else:
                    result = await trail.run(stage.agent(), text, session="s", on_update=stage.seen.append)
                while result.status == "paused":
                    result = await session.resume(stage.agent())
                results.append(result)
        finally:
            await stage.driver.close()
        return results, stage.seen


def endings(results: Sequence[RunResult]) -> list[tuple[str, str | None]]:
    return [(result.status.value, result.stop_reason and result.stop_reason.value) for result in results]


def shown_of(results: Sequence[RunResult]) -> list[str]:
    parts = [part for message in results[-1].state.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, ToolResultPart)]


@every_protocol
async def test_failures_blocks_and_pauses_leave_a_history_that_the_provider_takes(
    protocol: str, typed_server: ModelServer
) -> None:
    script = [
        overloaded(),
        tool_calls(ADD, ("fail", {}), ("forbidden", {}), text="I look.", reasoning="Three at once."),
        cut_off(),
        tool_calls(("pause", {}), ADD, reasoning="Now slowly."),
        failed_inside("rate_limit_exceeded"),
        tool_calls(("add", "{}"), ("nobody", {}), reasoning="Carelessly."),
        answer("Three.", reasoning="That is all."),
        tool_calls(ADD, reasoning="Once more."),
        answer("Still three."),
    ]
    results, seen = await played(protocol, typed_server, script, ["How many?", "Are you sure?"])
    assert endings(results) == [("completed", "completed")] * 2
    assert [result.output for result in results] == ["Three.", "Still three."]
    assert len(typed_server.requests()) == len(script)
    shown = shown_of(results)
    assert len(shown) == 8
    assert [text for text in shown if text in ("3", "paused")] == ["3", "paused", "3", "3"]
    said = [each for each in seen if isinstance(each, ReplyDelta) and each.kind == "text"]
    assert "".join(each.text for each in said).endswith("Three.Still three.")


@every_protocol
async def test_a_run_that_is_stopped_between_its_calls_can_be_spoken_to_again(
    protocol: str, typed_server: ModelServer
) -> None:
    script = [tool_calls(("stop", {}), ADD, reasoning="Stop first."), answer("Hello again.")]
    results, _ = await played(protocol, typed_server, script, ["Go.", "Hello?"])
    assert endings(results) == [("completed", "user_requested"), ("completed", "completed")]
    assert results[-1].output == "Hello again."


@every_protocol
async def test_a_reply_that_was_cut_while_it_thought_does_not_spoil_the_next_request(
    protocol: str, typed_server: ModelServer
) -> None:
    script = [answer("", finish_reason="length", reasoning="It is a long"), answer("Hello again.")]
    results, _ = await played(protocol, typed_server, script, ["Go.", "Hello?"])
    assert endings(results) == [("failed", "finish_reason"), ("completed", "completed")]


@every_protocol
async def test_a_reply_cut_in_the_middle_of_its_calls_is_tried_again_with_every_call_answered(
    protocol: str, typed_server: ModelServer
) -> None:
    script = [tool_calls(ADD, ADD, finish_reason="length", reasoning="Two."), answer("Three.")]
    results, _ = await played(protocol, typed_server, script, ["Go."])
    assert endings(results) == [("completed", "completed")]
    assert len(shown_of(results)) == 2


@pytest.mark.parametrize(
    "rubbish",
    [
        not_json(),
        without_choices(),
        json_body({"error": {}}),
        sse_body("data: {nope\n\n"),
        sse_body("data: [DONE]\n\n"),
    ],
    ids=["no JSON", "no choices", "an empty error", "an event that is none", "nothing"],
)
@pytest.mark.parametrize("watched", [True, False])
async def test_rubbish_is_the_models_failure_and_no_policy_about_tools_asks_again(
    typed_server: ModelServer, rubbish: ScriptedReply, watched: bool
) -> None:
    typed_server.play([rubbish] * 20)
    driver = driver_of("chat", typed_server)
    policy = ErrorPolicy.ignore_tool_errors()
    agent = AgentBuilder("clerk").with_model(driver).with_error_policy(policy).build()
    try:
        async with Steptrail.open("sqlite:///:memory:") as trail:
            result = await trail.run(agent, "Go.", on_update=(lambda _: None) if watched else None)
    finally:
        await driver.close()
    (error,) = result.state.steps[0].errors
    assert (error.error.type, result.status, result.stop_reason) == ("model", "failed", "error")
    assert len(typed_server.requests()) == 1


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("how", ["status", "inside", "code", "fetched"])
@every_protocol
async def test_a_key_of_any_form_that_a_server_repeats_is_in_no_event_and_in_no_log(
    protocol: str, how: str, watched: bool, typed_server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    key = f"0f81d4fae{protocol}{how}{watched}"
    said = f"Incorrect API key provided: {key}. Ask for another one."
    failure: JsonValue = {"type": "error", "error": {"message": said, "code": "invalid_api_key"}}
    script = {
        "inside": json_body(failure),
        "code": refused(400, "No.", code=key),
    }
    typed_server.play([script.get(how, refused(401, said, code="invalid_api_key"))])
    address = typed_server.root if protocol == "anthropic" else typed_server.url
    client: Any = None
    if how == "fetched":
        # Some thousand modules, which each process that collects the tests would import.
        from anthropic import AsyncAnthropic

        async def fetched() -> str:
            return key

        client = (
            AsyncAnthropic(base_url=address, api_key=key, max_retries=0)
            if protocol == "anthropic"
            else AsyncOpenAI(base_url=address, api_key=fetched, max_retries=0)
        )
    given: Any = {"base_url": address, "api_key": key} if client is None else {"client": client}
    driver = DRIVERS[protocol]("scripted", **given)
    agent = AgentBuilder("clerk").with_model(driver).build()
    caplog.set_level("DEBUG", "steptrail")
    async with Steptrail.open("sqlite:///:memory:") as trail:
        result = await trail.run(agent, "Go.", session="s", on_update=(lambda _: None) if watched else None)
        stored = str(await trail.session("s").events())
    assert result.error is not None
    assert result.error.message == ("No." if how == "code" else said.replace(key, "…"))
    (asked,) = typed_server.requests()
    assert key in str(asked.headers)
    written = [
        record.getMessage() + (record.exc_text or "")
        for record in caplog.records
        if record.name.startswith("steptrail")
    ]
    assert key not in stored
    assert key not in "".join(written)
    await driver.close()
    if client is not None:
        await client.close()
