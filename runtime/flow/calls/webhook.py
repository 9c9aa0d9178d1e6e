"""A try of a node that sends an HTTP request.

The URL is made from what the node sees, so its host is checked on every try: only the hosts that the node names are
asked, and no redirect leads elsewhere. No error says more of the request than its host.
"""

import codecs
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from steptrail.domain.failures import ErrorType
from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.kinds.seen import Seen
from steptrail.domain.flow.kinds.templates import filled, rendered
from steptrail.domain.flow.nodes import WebhookNode
from steptrail.domain.flow.policies import FailureClass
from steptrail.domain.json_value import JsonValue
from steptrail.domain.tools import ToolEffect
from steptrail.runtime.agent.capture import capture
from steptrail.runtime.flow.calls.port import Failed, Outcome, Succeeded, Try
from steptrail.runtime.flow.means import HttpAnswer, HttpClient
from steptrail.runtime.flow.values import GivenValues
from steptrail.runtime.kernel.files import File, is_mime_type
from steptrail.runtime.kernel.thread_calls import beside_the_loop

_PATIENCE_SECONDS = 1.0
"""How long a request that was cancelled may take to end."""
_NO_URL = re.compile(r"[\x00-\x20\x7f\\]")
"""The characters of no URL. Readers of URLs disagree about where a host ends that has one of them."""
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_OF_THE_CLIENT = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_KEY = "idempotency-key"
_LARGE = 100_000
"""Bytes of an answer that are read in the time that a thread takes to begin, or a little more."""
_TYPE = "content-type"
_TEXTS = r"csv|(java|ecma)script|graphql|(nd)?json[^/]*|sql|toml|urlencoded|xml|ya?ml"
_OF_TEXT = re.compile(rf"\A(text/|\Z)|[/+.-]({_TEXTS})\Z")
"""The types of bodies that are texts, beside those with a charset; so is one that says no type."""


class WebhookCall:
    """Sends a request once. What the other side answers decides the class of the failure."""

    def __init__(self, node: WebhookNode, seen: Seen, client: HttpClient) -> None:
        self._client, self._method = client, node.method
        self._host, self._url = _checked(rendered(node.url, seen), node.hosts)
        self._headers = _headers(node.headers, seen)
        body = filled(node.body, seen)
        self._content, self._type = _content(body)
        self.effect: ToolEffect = node.effect
        self.usual = FailureClass.TOOL
        self.timeout: float | None = None
        self.patience: float | None = _PATIENCE_SECONDS
        headers = cast("dict[str, JsonValue]", self._headers)
        self.given: JsonValue = {"method": self._method, "url": self._url, "headers": headers, "body": body}

    async def run(self, attempt: Try) -> Outcome:
        """Send the request, and return its answer. The effect id goes with it, as the key of its idempotency."""
        headers = {_KEY: attempt.context.effect_id, **self._headers}
        if self._type is not None:
            headers.setdefault(_TYPE, self._type)
        try:
            answer = await self._client.send(self._method, self._url, headers=headers, content=self._content)
        except ConnectionResetError as error:
            info = capture(error, default=ErrorType.TOOL, now=attempt.now() / 1e6)
            return Failed(failure=FailureClass.UNAVAILABLE, error=info, raised=error, may_have_acted=True)
        if 200 <= answer.status < 300:
            return await _succeeded(answer)
        return _refused(self._host, answer, attempt.now() / 1e6)


async def _succeeded(answer: HttpAnswer) -> Succeeded:
    """Return an answer as what the node returns. One of megabytes is read beside the event loop."""

    def read() -> Succeeded:
        given = GivenValues()
        body = given.value(_body(answer), "body")
        output: JsonValue = {"status": answer.status, "body": body}
        return Succeeded(output=output, files=given.files, detail={"status": answer.status})

    return await beside_the_loop(read, name="steptrail-answer") if len(answer.content) > _LARGE else read()


class _NoSuccess(Exception):
    """The other side gave an answer that is no success."""

    def __init__(self, host: str, answer: HttpAnswer) -> None:
        redirect = ", and redirects are not followed" if 300 <= answer.status < 400 else ""
        super().__init__(f"{host} answered with the status {answer.status}{redirect}")
        self.status_code, self.headers = answer.status, answer.headers


def _refused(host: str, answer: HttpAnswer, now: float) -> Failed:
    refused = _NoSuccess(host, answer)
    failure = _class_of(answer.status)
    kind = ErrorType.RATE_LIMIT if failure is FailureClass.RATE_LIMIT else ErrorType.TOOL
    raised = capture(refused, default=ErrorType.TOOL, now=now)
    error = replace(raised, type=kind, retryable=failure is not FailureClass.TOOL)
    return Failed(failure=failure, error=error, details={"status": answer.status}, raised=refused)


def _class_of(status: int) -> FailureClass:
    if status == 429:
        return FailureClass.RATE_LIMIT
    return FailureClass.UNAVAILABLE if status == 408 or status >= 500 else FailureClass.TOOL


def _config(message: str) -> NodeFault:
    return NodeFault(FailureClass.CONFIG, message)


def _checked(url: str, hosts: tuple[str, ...]) -> tuple[str, str]:
    """Return the host of a URL and the URL. Raises `NodeFault` for one that may not be asked."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise _config("the URL is none") from None
    if parts.scheme not in {"http", "https"} or not host or _NO_URL.search(url):
        raise _config("the URL is none of http or https")
    if "@" in parts.netloc:
        raise _config("the URL may hold no name and no password: send a header")
    if host not in {name.lower() for name in hosts}:
        raise NodeFault(FailureClass.CONFIG, f"the host {host!r} is not one of those that the node may ask")
    return host, url


def _headers(given: Mapping[str, str], seen: Seen) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, template in given.items():
        value = rendered(template, seen).strip()
        if not _NAME.fullmatch(name) or name.lower() in _OF_THE_CLIENT or _NO_VALUE.search(value):
            raise _config(f"the header {name!r} cannot be sent")
        headers[name.lower()] = value
    return headers


def _content(body: JsonValue) -> tuple[bytes | None, str | None]:
    """Return a body as it is sent, and its type."""
    if body is None:
        return None, None
    if isinstance(body, str):
        return body.encode(errors="replace"), "text/plain; charset=utf-8"
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"), "application/json"


def _body(answer: HttpAnswer) -> JsonValue | File:
    """Return the body of a success: JSON, a text, or a file where its type is none of text.

    Raises `NodeFault` of a class that is not tried again: the work is done.
    """
    kind, *parameters = (part.strip() for part in answer.headers.get(_TYPE, "").lower().split(";"))
    if kind.endswith(("/json", "+json")):
        try:
            return cast("JsonValue", json.loads(answer.content, parse_constant=_no_number)) if answer.content else None
        except (ValueError, RecursionError):
            why = f"the answer says that it is {kind}, and it is not"
            raise NodeFault(FailureClass.VALIDATION, why, {"status": answer.status}) from None
    charset = next((text[8:].strip("\"'") for text in parameters if text.startswith("charset=")), None)
    if charset is None and answer.content and not _OF_TEXT.search(kind):
        return File.from_bytes(answer.content, kind if is_mime_type(kind) else None)
    charset = charset or "utf-8"
    with suppress(LookupError, ValueError):
        # Punycode is for names: to read a long text as it takes hours, in which nothing else of the process goes on.
        if codecs.lookup(charset).name != "punycode":
            return answer.content.decode(charset, errors="replace")
    return answer.content.decode(errors="replace")


def _no_number(text: str) -> None:
    raise ValueError(text)
