"""What is decided about a server's tools without a server."""

import base64
import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
from mcp.shared.message import SessionMessage
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    Tool,
    ToolAnnotations,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from steptrail.domain.errors import ConfigurationError, MissingExtra
from steptrail.domain.json_value import JsonValue
from steptrail.domain.secrets import without_secrets
from steptrail.domain.tools import ToolSpec, misnamed
from steptrail.infrastructure.mcp.answering import read_again
from steptrail.infrastructure.mcp.content import error_text, files_of, result_of
from steptrail.infrastructure.mcp.description import Selection, specs_of
from steptrail.tools import ApprovalRule, ToolEffect, ToolRetry
from steptrail.tools.mcp import McpServer, McpToolSettings

SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"a": {"type": "string", "x-own": [1]}}}
MP3 = AudioContent(data=base64.b64encode(b"la").decode(), mime_type="audio/mpeg")


def listed(*names: str, hints: ToolAnnotations | None = None) -> list[Tool]:
    return [Tool(name=name, input_schema=SCHEMA, annotations=hints) for name in names]


def spec_with(settings: McpToolSettings, hints: ToolAnnotations | None = None) -> ToolSpec:
    return specs_of("s", listed("t", hints=hints), Selection(settings={"t": settings}, timeout=9.0, trust_hints=True))[
        "t"
    ]


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        (None, ToolEffect.UNSAFE),
        (ToolAnnotations(), ToolEffect.UNSAFE),
        (ToolAnnotations(destructive_hint=False), ToolEffect.UNSAFE),
        (ToolAnnotations(idempotent_hint=True), ToolEffect.IDEMPOTENT),
        (ToolAnnotations(read_only_hint=True), ToolEffect.READ),
        (ToolAnnotations(read_only_hint=True, idempotent_hint=False), ToolEffect.READ),
    ],
)
def test_annotations_choose_the_default_effect_class(hints: ToolAnnotations | None, effect: ToolEffect) -> None:
    assert spec_with(McpToolSettings(), hints).effect is effect


def test_hints_choose_nothing_until_somebody_says_that_the_server_is_trusted() -> None:
    hints = ToolAnnotations(read_only_hint=True, idempotent_hint=True)
    assert specs_of("s", listed("t", hints=hints), Selection())["t"].effect is ToolEffect.UNSAFE


def test_the_caller_has_the_last_word() -> None:
    said = McpToolSettings(
        name="n", description="d", effect=ToolEffect.KEYED, timeout=3.0, approval=True, retry=2, max_calls=1
    )
    assert spec_with(said, ToolAnnotations(read_only_hint=True)) == ToolSpec(
        name="n",
        description="d",
        parameters=SCHEMA,
        effect=ToolEffect.KEYED,
        timeout=3.0,
        approval=ApprovalRule(),
        retry=ToolRetry(attempts=2),
        max_calls=1,
        takes_context=False,
    )
    assert spec_with(McpToolSettings()).timeout == 9.0


def test_names_are_made_to_fit_and_get_the_prefix() -> None:
    specs = specs_of("s", listed("files/read", "a.b c"), Selection(prefix="fs_"))
    assert {name: spec.name for name, spec in specs.items()} == {"a.b c": "fs_a_b_c", "files/read": "fs_files_read"}


def test_two_tools_that_get_one_name_are_refused_until_one_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"'a\.b' and 'a/b' would both be called 'a_b'"):
        specs_of("s", listed("a/b", "a.b"), Selection())
    named = {"a/b": McpToolSettings(name="other")}
    assert [spec.name for spec in specs_of("s", listed("a/b", "a.b"), Selection(settings=named)).values()] == [
        "a_b",
        "other",
    ]


def test_two_tools_of_one_name_are_refused_but_not_one_that_is_on_two_pages() -> None:
    other = Tool(name="a", description="Another.", input_schema=SCHEMA)
    with pytest.raises(ConfigurationError, match="the MCP server 's': its tool 'a' is listed twice"):
        specs_of("s", [*listed("a"), other], Selection())
    assert list(specs_of("s", [*listed("a", "b"), other], Selection(exclude=frozenset({"a"})))) == ["b"]
    assert list(specs_of("s", [*listed("a", "b"), *listed("a")], Selection())) == ["a", "b"]


def test_a_name_that_is_too_long_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match=r"its tool 'n{65}': name: .*`exclude`.*`settings`"):
        specs_of("s", listed("n" * 65), Selection())


@pytest.mark.parametrize("said", [McpToolSettings(retry=0), McpToolSettings(timeout=-1.0), McpToolSettings(name="a b")])
def test_a_setting_that_cannot_be_is_refused(said: McpToolSettings) -> None:
    with pytest.raises(ConfigurationError, match="the MCP server 's': its tool 't': "):
        spec_with(said)


def test_tools_are_taken_and_left_out_by_the_servers_names() -> None:
    tools = listed("c", "b", "a")
    assert list(specs_of("s", tools, Selection())) == ["a", "b", "c"]
    assert list(specs_of("s", tools, Selection(include=frozenset("cb"), exclude=frozenset("b")))) == ["c"]


@pytest.mark.parametrize(
    "selection",
    [
        Selection(include=frozenset("x")),
        Selection(exclude=frozenset("x")),
        Selection(settings={"x": McpToolSettings()}),
    ],
)
def test_a_name_that_fits_no_tool_is_refused(selection: Selection) -> None:
    with pytest.raises(ConfigurationError, match="the MCP server 's' has no tool 'x'; its tools are: a"):
        specs_of("s", listed("a"), selection)


@pytest.mark.parametrize(
    ("content", "structured", "result"),
    [
        ([], None, ""),
        ([TextContent(text="{}")], {"a": 1}, {"a": 1}),
        ([TextContent(text="false")], False, False),
        (
            [MP3],
            {"a": 1},
            {
                "structuredContent": {"a": 1},
                "content": [
                    {
                        "type": "audio",
                        "mimeType": "audio/mpeg",
                        "bytes": 2,
                        "sha256": hashlib.sha256(b"la").hexdigest(),
                    }
                ],
            },
        ),
        (
            [AudioContent(data="no base64!", mime_type="audio/mpeg")],
            None,
            [{"type": "audio", "mimeType": "audio/mpeg", "base64Characters": 10}],
        ),
    ],
)
def test_a_result_is_json_without_what_is_no_text(
    content: list[ContentBlock], structured: object, result: JsonValue
) -> None:
    assert result_of(CallToolResult(content=content, structured_content=structured)) == result


def test_images_and_pdf_are_files_by_their_bytes_each_once() -> None:
    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    png, paper = b"\x89PNG\r\n\x1a\n-", b"%PDF-1.7"
    content: list[ContentBlock] = [
        TextContent(text="here"),
        ImageContent(data=encoded(png), mime_type="image/tiff"),
        ImageContent(data=encoded(b"svg"), mime_type="image/svg+xml"),
        ImageContent(data="*", mime_type="image/png"),
        ImageContent(data="", mime_type="image/png"),
        AudioContent(data=encoded(b"%PDF-no"), mime_type="audio/wav"),
        EmbeddedResource(resource=BlobResourceContents(uri="a://b", blob=encoded(paper))),
        EmbeddedResource(resource=BlobResourceContents(uri="a://c", blob=encoded(png))),
    ]
    files = files_of(CallToolResult(content=content))
    assert [(file.mime_type, file.data) for file in files] == [("image/png", png), ("application/pdf", paper)]


def test_a_failure_without_text_is_told_by_its_structured_content() -> None:
    assert error_text(CallToolResult(content=[], structured_content={"code": 7}, is_error=True)) == '{"code":7}'


def test_a_failure_without_words_says_that() -> None:
    assert error_text(CallToolResult(content=[MP3], is_error=True)) == "the tool failed and its server did not say why"


def test_a_missing_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def find_spec(name: str, within: str | None = None) -> ModuleSpec | None:
        return None if name == "mcp" else found(name, within)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    with pytest.raises(MissingExtra, match=r"pip install 'steptrail\[mcp\]'"):
        McpServer.stdio("anything")


@pytest.mark.slow("starts a process")
def test_naming_a_server_imports_no_client() -> None:
    program = (
        "import sys; from steptrail.tools.mcp import McpServer;"
        "McpServer.stdio('anything'); McpServer.http('https://example.org/mcp');"
        "print(sorted({'mcp', 'mcp_types', 'httpx2'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.parametrize("url", ["example.org/mcp", "ftp://example.org", "http://"])
def test_an_address_is_one_of_http(url: str) -> None:
    with pytest.raises(ConfigurationError, match="begins with http:// or https://"):
        McpServer.http(url)


def test_neither_headers_nor_what_an_address_hides_is_shown() -> None:
    server = McpServer.http("https://ana:secret@example.org/mcp?key=secret", {"X-Shop-Key": "knock three times"})
    assert repr(server) == "McpServer('example.org')"
    assert without_secrets("no entry for knock three times") == "no entry for …"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_time_to_connect_is_a_positive_number_of_seconds(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="connect_timeout is a number of seconds above 0"):
        McpServer.stdio("anything", connect_timeout=seconds)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"exlude": ["delete"]}, "there is no setting 'exlude'; the settings are: name, prefix, include, exclude, "),
        ({"include": "stock"}, "include: Expected a list, got `str`"),
        ({"exclude": "stock"}, "exclude: Expected a list, got `str`"),
        ({"include": [1, "stock"]}, "a name in include is a text, not int"),
        ({"exclude": [["stock"]]}, "a name in exclude is a text, not list"),
        ({"exclude": None}, "exclude: Expected a list, got `NoneType`"),
        ({"prefix": None}, "prefix is a text, not NoneType"),
        ({"trust_hints": "no"}, "trust_hints is True or False, not 'no'"),
        ({"connect_timeout": "5"}, "connect_timeout is a number of seconds above 0, not '5'"),
        ({"settings": ["stock"]}, "settings is a mapping from names of tools, not list"),
        (
            {"settings": {"stock": {"max_calls": 1}}},
            "what settings has for 'stock' is of the class McpToolSettings, not dict",
        ),
    ],
)
def test_a_setting_of_a_server_that_is_unknown_or_of_another_type_is_refused_at_once(
    options: dict[str, Any], problem: str
) -> None:
    for make in (McpServer.stdio, McpServer.http):
        with pytest.raises(ConfigurationError) as refused:
            make("http://shop/mcp", name="shop", **options)
        assert str(refused.value).startswith(f"the MCP server 'shop': {problem}")


@pytest.mark.parametrize(
    ("make", "given", "problem"),
    [
        (McpServer.stdio, {"command": None}, "the command of an MCP server is a text, not NoneType"),
        (McpServer.stdio, {"args": "shop.py"}, "the arguments of an MCP server: Expected a list, got `str`"),
        (McpServer.stdio, {"args": [5550123]}, "an argument of an MCP server is a text, not int"),
        (McpServer.stdio, {"env": ["A"]}, "the variables of an MCP server are a mapping, not list"),
        (McpServer.stdio, {"env": {"PIN": 5550123}}, "'PIN' of the variables of an MCP server is a text, not int"),
        (McpServer.http, {"headers": {"X-Pin": 5550123}}, "'X-Pin' of the headers of an MCP server is a text, not int"),
        (McpServer.stdio, {"name": 7}, "the name of an MCP server is a text, not int"),
    ],
)
def test_what_is_no_text_is_refused_at_once_and_not_shown(
    make: Callable[..., McpServer], given: dict[str, object], problem: str
) -> None:
    place = {"url": "http://shop/mcp"} if make == McpServer.http else {"command": "shop"}
    with pytest.raises(ConfigurationError) as refused:
        make(**{**place, **given})
    assert str(refused.value) == problem


def test_a_name_that_a_pattern_may_allow_is_left_to_the_server() -> None:
    schema: dict[str, JsonValue] = {"properties": {"a": {}}, "required": ["a"], "additionalProperties": False}
    patterns: dict[str, JsonValue] = {"patternProperties": {"^x-": {}}}
    closed, by_pattern = ToolSpec(name="t", parameters=schema), ToolSpec(name="t", parameters=schema | patterns)
    assert misnamed(closed, {"a": 1, "x-b": 2}) == "there is no parameter 'x-b'"
    assert misnamed(by_pattern, {"a": 1, "x-b": 2}) is None
    assert misnamed(by_pattern, {"x-b": 2}) == "they lack a"


@pytest.mark.parametrize("rest", ['"id": 1, "result": {"text": "%s"}', '"id": 1, "method": "m", "params": {"x": "%s"}'])
def test_half_an_emoji_is_read_in_answers_and_in_what_a_server_asks_or_tells(rest: str) -> None:
    line = f'{{"jsonrpc": "2.0", {rest}}}'
    with pytest.raises(ValidationError) as refused:
        jsonrpc_message_adapter.validate_json(line % "Tea \\ud83d")
    read = read_again(refused.value)
    assert isinstance(read, SessionMessage)
    assert read.message == jsonrpc_message_adapter.validate_json(line % "Tea ?")
