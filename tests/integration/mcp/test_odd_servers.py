"""Servers that speak the protocol badly: what is told of them."""

import sys
from pathlib import Path

import pytest

from steptrail.errors import ConfigurationError
from steptrail.infrastructure.mcp import dialling
from steptrail.infrastructure.mcp.errors import McpServerUnavailable
from steptrail.runtime.agent.tool_port import ToolFailed, ToolOutcome, ToolSucceeded
from steptrail.tools.mcp import McpServer
from tests.harness.bombs import bomb_server
from tests.integration.mcp.shop import by_name, call

SERVER = """
import json, os, sys

kind = sys.argv[1]
lists = {"unlisted": None, "unfit": {"tools": "x"}}
usual = {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
lists["mixed"] = {"tools": [*usual["tools"], {"name": "b", "inputSchema": "x"}, {"name": "c"}]}
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"error": {"code": -32601, "message": "no such method"}}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        server = {"name": "odd", "version": "1"}
        answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
    elif asked["method"] == "tools/list":
        found = lists.get(kind, usual)
        if found is None:
            continue
        answer = {"result": found}
    if kind == "endless" or (kind == "endless answer" and asked["method"] == "tools/call"):
        while True:
            sys.stdout.write("x" * 65_536)
    if kind == "talkative":
        answer = {"error": {"code": -32000, "message": f"{os.environ['SHOP_KEY']}, {sys.argv[-1]}: no keys"}}
    if kind == "long" and asked["method"] == "tools/list":
        usual["tools"][0]["description"] = "\u00e9" * 30_000
    if kind == "says" and asked["method"] == "tools/call":
        said = asked["params"]["arguments"]["what"].replace("ID", str(asked["id"]))
        os.write(1, said.encode("latin-1") + b"\\n")
        continue
    if asked["method"] == "tools/call":
        answer = {"error": {"code": -32000, "message": "the shop is closed"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


SMALL = 100_000


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "odd.py"
    path.write_text(SERVER)
    return str(path)


async def test_an_answer_with_the_code_of_a_closed_connection_is_a_refusal(script: str) -> None:
    async with McpServer.stdio(sys.executable, [script, "refuses"], name="odd") as server:
        outcome = await call(server, "a", {})
        assert list(by_name(server)) == ["a"]
        assert server.is_connected
    assert isinstance(outcome, ToolFailed)
    assert "refused the call: the shop is closed" in outcome.error.message
    assert "unknown" not in outcome.error.message


@pytest.mark.parametrize(
    ("kind", "seconds", "said"), [("unlisted", 2.0, "no answer within 2 seconds"), ("unfit", 60.0, "tools")]
)
async def test_a_list_of_tools_that_does_not_come_is_told_in_one_line(
    script: str, kind: str, seconds: float, said: str
) -> None:
    with pytest.raises(McpServerUnavailable, match=said) as raised:
        async with McpServer.stdio(sys.executable, [script, kind], name="odd", connect_timeout=seconds):
            pass
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("given", [["--api-key", "back at five"], ["--api-key=back at five"], ["X-Key: back at five"]])
async def test_a_server_that_repeats_the_keys_that_it_was_given_is_told_without_them(
    script: str, given: list[str]
) -> None:
    env = {"SHOP_KEY": "gone for tea"}
    with pytest.raises(McpServerUnavailable) as raised:
        async with McpServer.stdio(sys.executable, [script, "talkative", *given], env=env, name="odd"):
            pass
    assert "no keys" in str(raised.value)
    assert "gone for tea" not in str(raised.value)
    assert "back at five" not in str(raised.value)


async def test_a_tool_that_cannot_be_read_is_left_out_by_name(script: str) -> None:
    with pytest.raises(ConfigurationError, match=r"'odd'.* tool 'b' .*inputSchema.*`exclude`") as raised:
        async with McpServer.stdio(sys.executable, [script, "mixed"], name="odd"):
            pass
    assert "\n" not in str(raised.value)
    async with McpServer.stdio(sys.executable, [script, "mixed"], name="odd", exclude=["b", "c"]) as server:
        assert list(by_name(server)) == ["a"]
    async with McpServer.stdio(sys.executable, [script, "mixed"], name="odd", include=["a"]) as server:
        assert list(by_name(server)) == ["a"]
    with pytest.raises(ConfigurationError, match=r"has no tool 'd'; its tools are: a, b, c"):
        async with McpServer.stdio(sys.executable, [script, "mixed"], name="odd", include=["d"]):
            pass


@pytest.mark.parametrize(
    ("way", "said"), [("plain", "longer than 67,108,864"), ("gzip", "longer than 67,108,864"), ("br", "'br'")]
)
async def test_a_server_whose_answer_does_not_end_cannot_be_reached(way: str, said: str) -> None:
    async with bomb_server() as url:
        with pytest.raises(McpServerUnavailable, match=said):
            async with McpServer.http(f"{url}/{way}", name="odd"):
                pass


async def test_a_server_that_writes_a_line_without_end_cannot_be_reached(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "MOST_BYTES", SMALL)
    said = "'odd' cannot be reached: it wrote a line of more than 100,000 bytes"
    with pytest.raises(McpServerUnavailable, match=said):
        async with McpServer.stdio(sys.executable, [script, "endless"], name="odd"):
            pass


async def test_a_server_that_answers_without_end_has_ended_during_the_call(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "MOST_BYTES", SMALL)
    async with McpServer.stdio(sys.executable, [script, "endless answer"], name="odd") as server:
        outcome = await call(server, "a", {})
        assert not server.is_connected
    assert isinstance(outcome, ToolFailed)
    assert "ended during the call: it wrote a line of more than 100,000 bytes" in outcome.error.message


async def test_a_long_line_that_comes_in_pieces_is_read_as_it_was_written(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialling, "MOST_BYTES", 2 * SMALL)
    async with McpServer.stdio(sys.executable, [script, "long"], name="odd") as server:
        assert by_name(server)["a"].spec.description == 30_000 * "\u00e9"


ANSWER = '{"jsonrpc": "2.0", "id": ID, "result": %s}'


@pytest.mark.parametrize(
    ("lines", "result"),
    [
        # What JavaScript leaves of a text that it cuts inside of an emoji.
        (ANSWER % '{"content": [{"type": "text", "text": "Tea \\ud83d"}]}', "Tea ?"),
        (ANSWER % '{"content": [{"type": "text", "text": "Th\xe9"}]}', "Th\ufffd"),
        ('{"id": ID}\n[]\n{"jsonrpc": "2.0", "id": ID, "method": 5}\n' + ANSWER % '{"content": []}', ""),
    ],
    ids=["half an emoji", "latin-1", "lines of a log before it"],
)
async def test_an_answer_that_is_not_quite_json_is_read(script: str, lines: str, result: str) -> None:
    async with McpServer.stdio(sys.executable, [script, "says"], name="odd") as server:
        outcomes = [await _said(server, lines) for _ in range(2)]
    assert [outcome.result for outcome in outcomes if isinstance(outcome, ToolSucceeded)] == [result, result]


@pytest.mark.parametrize("result", ["null", "[" * 300 + "]" * 300], ids=["null", "deep"])
async def test_an_answer_that_cannot_be_read_ends_its_call(script: str, result: str) -> None:
    async with McpServer.stdio(sys.executable, [script, "says"], name="odd") as server:
        outcome = await _said(server, ANSWER % result)
        assert server.is_connected
    assert isinstance(outcome, ToolFailed)
    assert "gave no answer that can be read" in outcome.error.message
    assert outcome.error.message.endswith("whether the call took effect is unknown")


async def _said(server: McpServer, lines: str) -> ToolOutcome:
    return await call(server, "a", {"what": lines}, timeout=10.0)
