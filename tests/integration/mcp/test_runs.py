"""Agents whose tools are a server's: recorded, shown, and gone on with by another process."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail
from steptrail.domain.errors import ConfigurationError
from steptrail.live import LiveUpdate, ToolProgress
from steptrail.testing import ScriptedModel, call as ask
from steptrail.tools.mcp import McpServer, McpServerUnavailable
from tests.harness.ready_python import KILL, ready_python
from tests.integration.mcp.shop import Shop

_ROOT = Path(__file__).parents[3]


async def test_a_run_records_results_and_shows_progress(process: Shop, tmp_path: Path) -> None:
    shown: list[LiveUpdate] = []
    model = ScriptedModel([ask("shop_stock", item="tea"), ask("shop_count_up", to=2), "Three."])
    async with process.server(prefix="shop_") as server, Steptrail.open(f"sqlite:///{tmp_path}/runs.db") as trail:
        agent = AgentBuilder("clerk").with_model(model).with_tools(*server.tools).build()
        result = await trail.run(agent, "How much tea?", session="s", on_update=shown.append)
    assert result.output == "Three."
    first, second = (step.tool_executions[0] for step in result.state.steps[:2])
    assert (first.result, second.result) == ({"tea": 3}, "counted")
    assert [each.message for each in shown if isinstance(each, ToolProgress)] == ["at 1", "at 2"]
    assert [seen["meta"]["steptrail/effectId"] for seen in process.seen("call")] == ["s:1:1:0", "s:1:2:0"]


_OWNER = """
import asyncio, sys
from steptrail import AgentBuilder, ErrorPolicy, Steptrail
from steptrail.testing import ScriptedModel, call
from tests.integration.mcp.shop import Shop
from pathlib import Path

async def main():
    folder = Path(sys.argv[1])
    async with Shop(folder, "stdio").server() as server, Steptrail.open(f"sqlite:///{folder}/runs.db") as trail:
        script = [call("order_place", item="tea"), call("hang")]
        agent = AgentBuilder("clerk").with_model(ScriptedModel(script)).with_tools(*server.tools).build()
        await trail.run(agent, "Order tea.", session="s")

asyncio.run(main())
"""


async def test_a_session_goes_on_in_another_process_with_a_connection_of_its_own(process: Shop) -> None:
    owner = subprocess.Popen([ready_python(), "-c", _OWNER, str(process.folder)], cwd=_ROOT)
    async with asyncio.timeout(90):
        while not process.seen("hanging"):
            assert owner.poll() is None
            await asyncio.sleep(0.05)
    owner.send_signal(KILL)
    owner.wait()
    async with process.server() as server, Steptrail.open(f"sqlite:///{process.folder}/runs.db") as trail:
        model = ScriptedModel([ask("order_place", item="tea"), ask("hang"), ask("stock", item="tea"), "Done."])
        agent = AgentBuilder("clerk").with_model(model).with_tools(*server.tools).build()
        result = await trail.session("s").resume(agent)
    assert result.output == "Done."
    placed, hanging, stock = (step.tool_executions[0] for step in result.state.steps[:3])
    assert (placed.result, stock.result) == ("1 tea\nordered", {"tea": 3})
    # It is unsafe, so nobody repeats it, and the model is told that its outcome is unknown.
    assert (hanging.status, len(process.seen("hanging"))) == ("interrupted", 1)
    assert len(process.seen("placed")) == 1


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (McpServer.stdio("no-such-command-anywhere"), "no-such-command-anywhere.*cannot be reached.*No such file"),
        (McpServer.stdio(sys.executable, ["-c", "pass"], name="mute"), "'mute' cannot be reached"),
        (
            McpServer.stdio(sys.executable, ["-c", "input(); input()"], name="slow", connect_timeout=1.0),
            "'slow' cannot be reached: no answer within 1 seconds",
        ),
        (McpServer.http("http://127.0.0.1:9/mcp"), "'127.0.0.1' cannot be reached: All connection attempts failed"),
    ],
    ids=["no-command", "ends-at-once", "says-nothing", "no-listener"],
)
async def test_a_server_that_is_not_there_is_named_when_it_is_entered(server: McpServer, why: str) -> None:
    with pytest.raises(McpServerUnavailable, match=why):
        async with server:
            raise AssertionError("it cannot be entered")


async def test_a_header_that_cannot_be_sent_is_not_shown(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "http")
    try:
        with pytest.raises(McpServerUnavailable, match="Illegal header value …") as caught:
            async with McpServer.http(shop.url, {"X-Key": "very-secret\n"}):
                raise AssertionError("it cannot be entered")
        assert "very-secret" not in str(caught.value)
    finally:
        shop.close()


async def test_a_selection_that_fits_none_ends_the_server_again(process: Shop) -> None:
    with pytest.raises(ConfigurationError, match=r"has no tool 'stok'; its tools are: count_up, die"):
        async with process.server(include=["stok"]):
            raise AssertionError("it cannot be entered")


def test_with_the_blocking_api_the_block_is_a_plain_one(process: Shop, tmp_path: Path) -> None:
    model = ScriptedModel([ask("stock", item="tea"), ask("die"), ask("stock", item="tea"), "Three."])
    with process.server() as server, Steptrail.open_sync(f"sqlite:///{tmp_path}/runs.db") as trail:
        builder = AgentBuilder("clerk").with_model(model).with_tools(*server.tools)
        result = trail.run(builder.with_error_policy(ErrorPolicy.ignore_tool_errors()).build(), "How much tea?")
        assert server.is_connected
    assert result.output == "Three."
    results = [step.tool_executions[0] for step in result.state.steps[:3]]
    assert [each.result for each in results] == [{"tea": 3}, None, {"tea": 3}]
    assert not server.is_connected
    with pytest.raises(ConfigurationError, match="inside its block"):
        assert server.tools


def test_a_plain_block_that_cannot_be_entered_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(McpServerUnavailable, match="No such file"), McpServer.stdio("no-such-command-anywhere"):
        raise AssertionError("it cannot be entered")
    while threading.active_count() > before:
        time.sleep(0.01)


async def test_a_plain_block_is_refused_inside_a_running_loop(process: Shop) -> None:
    refused = pytest.raises(ConfigurationError, match="cannot be used inside a running event loop")
    with refused, process.server():
        raise AssertionError("it cannot be entered")


_AGENTS = """
from contextlib import asynccontextmanager
from pathlib import Path
from steptrail import AgentBuilder
from steptrail.testing import ScriptedModel, call
from tests.integration.mcp.shop import Shop

@asynccontextmanager
async def agent():
    async with Shop(Path("."), "stdio").server() as server:
        model = ScriptedModel([call("stock", item="tea"), "Three packets."])
        yield AgentBuilder("clerk").with_model(model).with_tools(*server.tools)
"""


def test_the_command_line_runs_an_agent_that_needs_a_server_and_ends_the_server(process: Shop) -> None:
    (process.folder / "agents.py").write_text(_AGENTS, encoding="utf-8")
    command = [ready_python(), "-m", "steptrail", "run", "agents.py", "How much tea?", "--id", "s", "--json"]
    path = os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, cwd=process.folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert json.loads(done.stdout)["output"] == "Three packets."
    assert len(process.seen("call")) == 1
