"""The port through which webhook nodes send HTTP requests."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

MOST_BYTES: Final = 10 * 1024 * 1024
"""Bytes. A longer body of an answer, unpacked, is not read to its end."""


class HttpAnswer(NamedTuple):
    """The answer to a request. The names in `headers` are lower case.

    The body of an answer that is no success is not read: then `content` is empty.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


class HttpClient(Protocol):
    """Sends single requests. It keeps no cookies and follows no redirects."""

    async def send(self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None) -> HttpAnswer:
        """Send a request and return the answer. It waits until it is cancelled.

        Raises `ConnectionError` when the other side cannot be reached or breaks off, and `NodeFault` for a request that
        cannot be sent, and for an answer that cannot be read or is longer than `MOST_BYTES`. Their messages hold
        nothing of the request.
        """
        ...
