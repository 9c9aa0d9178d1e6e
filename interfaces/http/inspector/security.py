"""The rules of every answer of the inspector: headers, the name of the host, the token of a server of its own."""

import hmac
from collections.abc import Collection
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from steptrail.interfaces.http.sse import STREAM_CACHE

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""The headers of every answer."""


class Guarded:
    """Puts the headers on every answer of an application, and refuses requests to hosts that are not `hosts`.

    `hosts` are names without a port; an address of a network is always accepted, since no other page can give such a
    name to itself. None accepts every host.
    """

    def __init__(self, app: "ASGIApp", hosts: Collection[str] | None = None) -> None:
        self._app = app
        self._hosts = None if hosts is None else frozenset(host.casefold() for host in hosts)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request."""
        from starlette.requests import HTTPConnection
        from starlette.responses import PlainTextResponse

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sent(message: "Message") -> None:
            if message["type"] == "http.response.start":
                headers = {name.encode(): value.encode() for name, value in HEADERS.items()}
                # That of a stream says as well that it is not to be packed.
                stands = (b"cache-control", STREAM_CACHE.encode())
                kept = [pair for pair in message["headers"] if pair == stands or pair[0].lower() not in headers]
                ours = [pair for pair in headers.items() if pair[0] != stands[0] or stands not in kept]
                message = {**message, "headers": [*kept, *ours]}
            await send(message)

        if self._is_ours(HTTPConnection(scope)):
            await self._app(scope, receive, sent)
        else:
            refused = PlainTextResponse("This host is not served here.\n", HTTPStatus.MISDIRECTED_REQUEST)
            await refused(scope, receive, sent)

    def _is_ours(self, connection: "HTTPConnection") -> bool:
        named = connection.headers.getlist("host")
        if self._hosts is None:
            return True
        if len(named) != 1:
            return False
        host = _without_port(named[0]).casefold()
        return host in self._hosts or _address(host) is not None


class TokenDoor:
    """Lets those in who have said a token once. It comes in the address, and from then on as a cookie.

    No script reads the cookie, and no other page has it sent. Its name holds the port: browsers keep one cookie of a
    name for all ports of a host.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def knows(self, connection: "HTTPConnection") -> bool:
        """Tell whether a request has the cookie."""
        return self._is_right(connection.cookies.get(_cookie_of(connection), ""))

    def before(self, app: "ASGIApp") -> "ASGIApp":
        """Return an application that gives the cookie for the token, and leaves all else to `app`."""

        async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
            from starlette.requests import Request

            opened = self._opened(Request(scope)) if scope["type"] == "http" else None
            await (opened or app)(scope, receive, send)

        return answer

    def _opened(self, request: "Request") -> "Response | None":
        from starlette.responses import RedirectResponse

        if not self._is_right(request.query_params.get("token", "")):
            return None
        others = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        place = request.url.path + (f"?{urlencode(others)}" if others else "")
        answer = RedirectResponse("/" + place.lstrip("/\\"), HTTPStatus.SEE_OTHER)
        answer.set_cookie(_cookie_of(request), self._token, httponly=True, samesite="strict", path="/")
        return answer

    def _is_right(self, said: str) -> bool:
        return hmac.compare_digest(said.encode(), self._token.encode())


def _cookie_of(connection: "HTTPConnection") -> str:
    return f"steptrail_inspector_{(connection.scope.get('server') or ('', ''))[1]}"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] or host if ":" in host else host


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
