"""Answers over `requests` that hold no more than anybody reads: its users here are told little, and read bodies whole.

A body may be endless, come byte by byte, or be a few kilobytes that unpack to gigabytes. It is cut and not refused,
since the status was said before it.
"""

import time
from typing import Any, Final

MOST_BYTES: Final = 64 * 1024
"""The longest that one body may be, unpacked."""
_MOST_SECONDS: Final = 10.0


def bound(session: Any) -> Any:
    """Have a session of `requests` read a part of each body at most, for ten seconds at most; return the session."""
    session.stream = True
    session.hooks["response"].append(_cut)
    return session


def _cut(response: Any, *_: Any, **__: Any) -> None:
    body, ends = bytearray(), time.monotonic() + _MOST_SECONDS
    # One byte at a time: for more, it waits until so many have come or have been unpacked.
    for piece in response.iter_content(1):
        body += piece
        if len(body) >= MOST_BYTES or time.monotonic() > ends:
            break
    response.close()
    response._content = bytes(body)
