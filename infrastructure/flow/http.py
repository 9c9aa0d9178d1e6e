"""HTTP requests, sent by `httpx2`. Each has a connection of its own, so none sees the cookies of another."""

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass
from steptrail.infrastructure.bounded_http import ASKS_FOR, Body, certificates
from steptrail.infrastructure.extras import from_extra
from steptrail.runtime.flow.means import MOST_BYTES, HttpAnswer

_is_ours: ContextVar[bool] = ContextVar("is_ours", default=False)
"""Whether the request that is being sent is one of a webhook, whose URL may hold a secret."""


def _is_not_ours(_: logging.LogRecord) -> bool:
    """Tell whether a line of the log of `httpx2`, which names a URL, is about a request of somebody else."""
    return not _is_ours.get()


class HttpxClient:
    """Sends requests. Proxies and certificates are those of the environment. None of their URLs is logged.

    Raises `MissingExtra` without the package.
    """

    def __init__(self) -> None:
        self._httpx: Any = from_extra("httpx2", "flow", "a webhook", "httpx2")
        logging.getLogger("httpx2").addFilter(_is_not_ours)

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None) -> HttpAnswer:
        """See `HttpClient.send`."""
        httpx = self._httpx
        ours = _is_ours.set(True)
        sent = [(name.encode(), value.encode(errors="replace")) for name, value in headers.items()]
        try:
            made = httpx.AsyncClient(headers=ASKS_FOR, verify=certificates(), timeout=None, follow_redirects=False)
            async with (
                made as client,
                client.stream(method, url, headers=sent, content=content) as response,
            ):
                body = await _read(response) if response.is_success else b""
                return HttpAnswer(response.status_code, dict(response.headers), body)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError):
            # Their messages repeat the URL or a header.
            raise NodeFault(FailureClass.CONFIG, "the request cannot be sent as it is written") from None
        except httpx.TransportError as error:
            never_sent = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError))
            kind = ConnectionError if never_sent else ConnectionResetError
            raise kind(f"{type(error).__name__}: {error}".removesuffix(": ")) from None
        finally:
            _is_ours.reset(ours)


async def _read(response: Any) -> bytes:
    """Return the body of an answer. Raises `NodeFault` for one that is too long or cannot be unpacked."""

    def refusal(why: str) -> NodeFault:
        return NodeFault(FailureClass.VALIDATION, why, {"status": response.status_code})

    body = Body(response.headers.get("content-encoding", "identity"), MOST_BYTES, refusal)
    return b"".join([piece async for chunk in response.aiter_raw() for piece in body.pieces(chunk)])
