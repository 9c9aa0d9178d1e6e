"""Answers over `requests` that hold no more than anybody reads: its users here are told little, and read bodies whole.

A body may be endless, come byte by byte, or be a few kilobytes that unpack to gigabytes. It is cut and not refused,
since the status was said before it. A head that comes byte by byte is refused: the library waits for each byte anew.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from typing import Any, Final

MOST_BYTES: Final = 64 * 1024
"""The longest that one body may be, unpacked."""
_MOST_SECONDS: Final = 10.0


def bound(session: Any) -> Any:
    """Have a session of `requests` read no answer without end; return the session.

    A head has as long altogether as its server may be silent, a body ten seconds.
    """
    session.stream = True
    session.hooks["response"].append(_cut)
    for adapter in session.adapters.values():
        _with_heads_that_end(adapter.poolmanager)
        adapter.proxy_manager_for = partial(_proxy, adapter.proxy_manager_for)
    return session


def _proxy(manager_for: Callable[..., Any], *proxy: Any, **named: Any) -> Any:
    return _with_heads_that_end(manager_for(*proxy, **named))


def _with_heads_that_end(manager: Any) -> Any:
    """Have all connections of a manager of `urllib3` read heads in time; return the manager."""
    pools = manager.pool_classes_by_scheme.items()
    manager.pool_classes_by_scheme = {
        scheme: pool if isinstance(pool, partial) else partial(_pool, pool) for scheme, pool in pools
    }
    return manager


def _pool(kind: Callable[..., Any], *given: Any, **named: Any) -> Any:
    made = kind(*given, **named)
    made.ConnectionCls = type("Connection", (made.ConnectionCls,), {"response_class": _HeadInTime})
    return made


def _cut(response: Any, *_: Any, **__: Any) -> None:
    body, ends = bytearray(), time.monotonic() + _MOST_SECONDS
    # One byte at a time: for more, it waits until so many have come or have been unpacked.
    for piece in response.iter_content(1):
        body += piece
        if len(body) >= MOST_BYTES or time.monotonic() > ends:
            break
    response.close()
    response._content = bytes(body)


class _HeadInTime(HTTPResponse):
    """The answer on a connection, also that of a proxy which is asked for one."""

    def __init__(self, sock: Any, *given: Any, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        # A socket of pyOpenSSL, where a service has that, does not tell its patience.
        seconds = getattr(sock, "gettimeout", float)() or _MOST_SECONDS
        self._received = _Received(self.fp.detach(), time.monotonic() + seconds)
        self.fp = BufferedReader(self._received)

    def begin(self) -> None:
        """Read the head."""
        super().begin()
        self._received.ends = math.inf


class _Received(RawIOBase):
    """The bytes that a socket receives, until a time of the monotonic clock."""

    def __init__(self, raw: RawIOBase, ends: float) -> None:
        super().__init__()
        self._raw, self.ends = raw, ends

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what there is. Raises `TimeoutError`."""
        if time.monotonic() > self.ends:
            raise TimeoutError("the head of the answer does not end")
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close it, and what it reads."""
        self._raw.close()
        super().close()
