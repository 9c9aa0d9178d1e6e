"""Calls of a real server's tools, on every way to it."""

import asyncio
import hashlib
import os
import signal
import time

import anyio
import pytest

from steptrail import ToolEffect
from steptrail.domain.failures import ErrorType
from steptrail.domain.json_value import JsonValue
from steptrail.runtime.agent.tool_port import ToolFailed, ToolSucceeded, ToolTimedOut
from steptrail.tools import ToolRetry
from steptrail.tools.mcp import EFFECT_ID_KEY, McpToolSettings
from tests.integration.mcp.shop import Shop, by_name, call

PIXEL = b"not really a picture" * 3


async def outcome_of(shop: Shop, tool: str, **arguments: object) -> object:
    async with shop.server() as server:
        return await call(server, tool, arguments)


async def failure_of(shop: Shop, tool: str, **arguments: object) -> str:
    outcome = await outcome_of(shop, tool, **arguments)
    assert isinstance(outcome, ToolFailed)
    assert outcome.error.type is ErrorType.TOOL
    return outcome.error.message


async def test_every_page_of_the_list_is_taken_and_the_schema_is_the_servers(shop: Shop) -> None:
    async with shop.server() as server:
        tools = by_name(server)
    assert list(tools) == ["count_up", "die", "hang", "order.place", "picture", "refuse", "rename", "stock"]
    assert tools["stock"].spec.parameters == {
        "type": "object",
        "properties": {"item": {"title": "Item", "type": "string"}},
        "required": ["item"],
        "title": "stockArguments",
    }
    assert tools["stock"].spec.description == "Count what is left of an item."


async def test_a_server_that_was_entered_in_a_scope_has_ended_when_that_was_cancelled_and_is_left(shop: Shop) -> None:
    """anyio cancels again at each turn, and its process ran on beside what came next."""
    with anyio.CancelScope() as scope:
        async with shop.server():
            scope.cancel()
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("steptrail-mcp")]


async def test_structured_content_is_the_result(shop: Shop) -> None:
    assert await outcome_of(shop, "stock", item="tea") == ToolSucceeded({"tea": 3})


async def test_text_is_the_result_without_it(shop: Shop) -> None:
    assert await outcome_of(shop, "order.place", item="tea", count=2) == ToolSucceeded("2 tea\nordered")


async def test_of_a_blob_type_size_and_digest_are_kept(shop: Shop) -> None:
    kept: dict[str, JsonValue] = {"bytes": len(PIXEL), "sha256": hashlib.sha256(PIXEL).hexdigest()}
    assert await outcome_of(shop, "picture") == ToolSucceeded(
        [
            {"type": "text", "text": "a cup"},
            {"type": "image", "mimeType": "image/png", **kept},
            {"type": "resource", "uri": "shop://cup", **kept},
            {"type": "resource_link", "uri": "shop://cup/more", "name": "more"},
        ]
    )


async def test_what_the_server_calls_an_error_is_a_failed_call_with_its_text(shop: Shop) -> None:
    assert await failure_of(shop, "refuse", why="we are closed") == "Error executing tool refuse: we are closed"


async def test_arguments_are_validated_by_the_server(shop: Shop) -> None:
    assert "Input should be a valid integer" in await failure_of(shop, "count_up", to="many")
    assert shop.seen("call")[0]["tool"] == "count_up"


async def test_the_effect_id_travels_with_every_call(shop: Shop) -> None:
    async with shop.server() as server:
        await call(server, "stock", {"item": "tea"}, effect_id="x-7:1:1:0")
    assert [seen["meta"][EFFECT_ID_KEY] for seen in shop.seen("call")] == ["x-7:1:1:0"]


async def test_progress_is_reported(shop: Shop) -> None:
    told: list[tuple[str, float | None, float | None]] = []

    def tell(message: str, done: float | None, total: float | None) -> None:
        told.append((message, done, total))

    async with shop.server() as server:
        outcome = await call(server, "count_up", {"to": 3}, report=tell)
    assert outcome == ToolSucceeded("counted")
    assert told == [("at 1", 1, 3), ("at 2", 2, 3), ("at 3", 3, 3)]


async def test_variables_and_headers_reach_the_server(shop: Shop) -> None:
    await outcome_of(shop, "stock", item="tea")
    given = (shop.seen("started")[0]["secret"], shop.seen("call")[0]["header"])
    assert given == (("tea leaves", None) if shop.way == "stdio" else (None, "tea"))


async def until_seen(shop: Shop, what: str) -> None:
    async with asyncio.timeout(60):
        while not shop.seen(what):
            await asyncio.sleep(0.02)


async def test_a_call_that_runs_out_of_time_is_cancelled_on_the_server(shop: Shop) -> None:
    async with shop.server() as server:
        outcome = await call(server, "hang", timeout=0.5)
        assert isinstance(outcome, ToolTimedOut)
        # Of the server's side nobody can be sure.
        assert not outcome.cancelled
        assert "its MCP server was told to cancel it" in outcome.error.message
        await until_seen(shop, "cancelled")
        assert await call(server, "stock", {"item": "tea"}) == ToolSucceeded({"tea": 3})


async def test_a_call_whose_caller_is_cancelled_is_cancelled_on_the_server(shop: Shop) -> None:
    async with shop.server() as server:
        hanging = asyncio.create_task(call(server, "hang", timeout=None))
        await until_seen(shop, "hanging")
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        await until_seen(shop, "cancelled")


async def test_a_server_that_dies_is_a_failed_call_that_says_so(shop: Shop) -> None:
    message = await failure_of(shop, "die")
    assert "the MCP server " in message
    assert "ended during the call" in message
    assert message.endswith("whether the call took effect is unknown")


async def test_the_next_call_connects_again(process: Shop) -> None:
    async with process.server() as server:
        await call(server, "die")
        three = [call(server, "stock", {"item": "tea"}) for _ in range(3)]
        assert await asyncio.gather(*three) == [ToolSucceeded({"tea": 3})] * 3
    assert len(process.seen("started")) == 2


async def test_a_server_that_died_between_two_calls_is_no_failure(process: Shop) -> None:
    async with process.server() as server:
        os.kill(process.seen("started")[0]["pid"], signal.SIGKILL)
        until = time.monotonic() + 60
        while server.is_connected and time.monotonic() < until:
            await asyncio.sleep(0.02)
        assert await call(server, "stock", {"item": "tea"}) == ToolSucceeded({"tea": 3})


@pytest.mark.parametrize("shop", ["http", "legacy"], indirect=True)
async def test_a_server_that_was_started_anew_behind_its_address_is_no_failure(shop: Shop) -> None:
    async with shop.server() as server:
        shop.close()
        shop.open()
        assert await call(server, "order.place", {"item": "tea"}) == ToolSucceeded("1 tea\nordered")
    assert len(shop.seen("placed")) == 1


async def test_a_server_that_stays_away_is_a_failed_call_each_time(tmp_path_factory: pytest.TempPathFactory) -> None:
    shop = Shop(tmp_path_factory.mktemp("shop"), "http")

    try:
        async with shop.server() as server:
            shop.close()
            for _ in range(2):
                outcome = await call(server, "stock", {"item": "tea"})
                assert isinstance(outcome, ToolFailed)
                assert "All connection attempts failed" in outcome.error.message
            shop.open()
            assert await call(server, "stock", {"item": "tea"}) == ToolSucceeded({"tea": 3})
    finally:
        shop.close()


@pytest.mark.parametrize(("effect", "again"), [(ToolEffect.UNSAFE, False), (ToolEffect.IDEMPOTENT, True)])
async def test_only_an_unsafe_call_whose_server_died_is_not_tried_again_by_a_rule(
    process: Shop, effect: ToolEffect, again: bool
) -> None:
    settings = {name: McpToolSettings(effect=effect, retry=ToolRetry(attempts=2)) for name in ("die", "refuse")}
    async with process.server(settings=settings) as server:
        refused, died = await call(server, "refuse", {"why": "no"}), await call(server, "die")
        assert isinstance(refused, ToolFailed)
        assert isinstance(died, ToolFailed)
        assert (refused.may_retry, died.may_retry) == (True, again)


def test_tools_work_in_another_loop_of_the_process(process: Shop) -> None:
    async def main() -> object:
        async with process.server() as server:
            return await asyncio.to_thread(lambda: asyncio.run(call(server, "stock", {"item": "tea"})))

    assert asyncio.run(main()) == ToolSucceeded({"tea": 3})


async def test_after_its_block_a_server_and_its_tools_are_gone(process: Shop) -> None:
    async with process.server() as server:
        tools = server.tools
    (stock,) = [tool for tool in tools if tool.remote_name == "stock"]
    with pytest.raises(ConnectionError, match="was left"):
        await stock.call("stock", {}, None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    server, pid = server, process.seen("started")[0]["pid"]
    with pytest.raises(Exception, match="known inside its block"):
        _ = server.tools
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(pid)), 0)


def test_a_server_that_is_entered_again_in_another_loop_connects_again_for_several_calls(process: Shop) -> None:
    server = process.server()

    async def main() -> list[object]:
        async with server:
            await call(server, "die")
            return await asyncio.gather(*(call(server, "stock", {"item": "tea"}) for _ in range(3)))

    for _ in range(2):
        assert asyncio.run(main()) == [ToolSucceeded({"tea": 3})] * 3
