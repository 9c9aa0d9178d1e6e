"""Makes new ids, so that they sort by the time at which they were made, and ids of sessions from idempotency keys."""

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from typing import cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.storable import storable

_AT_ONCE = 256
"""For how many ids random bits are fetched at a time. Each fetch lets another thread of the process go first."""

_lock = threading.Lock()
_last = 0
_random_bits: Iterator[int] = iter(())


def new_id(prefix: str) -> str:
    """Return `<prefix>-<uuid7>` (RFC 9562). Of two ids of one process, the later one always sorts after the other."""
    global _last
    with _lock:
        # The stamp has 48 bits of milliseconds and 12 bits of their fraction. Two equal stamps must not occur.
        stamp = max((time.time_ns() << 12) // 1_000_000, _last + 1)
        _last = stamp
        bits = next(_random_bits, None)
        if bits is None:
            bits = _fetched()
    milliseconds, fraction = stamp >> 12, stamp & 0xFFF
    high, low = 0x8000 | bits >> 48 & 0x3FFF, bits & 0xFFFF_FFFF_FFFF
    return f"{prefix}-{milliseconds >> 16:08x}-{milliseconds & 0xFFFF:04x}-7{fraction:03x}-{high:04x}-{low:012x}"


def _fetched() -> int:
    """Fetch random bits for the next ids, and return 64 of them."""
    global _random_bits
    _random_bits = iter(memoryview(os.urandom(8 * _AT_ONCE)).cast("Q").tolist())
    return next(_random_bits)


def _after_fork() -> None:
    """Fetch other bits than the parent has, and leave a lock alone that another thread of the parent may hold."""
    global _lock, _random_bits
    _lock, _random_bits = threading.Lock(), iter(())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def session_for_key(key: str) -> str:
    """Return the id of the session that a command with this key is for, if the caller named no session.

    The id is always the same for a key. Raises `ConfigurationError` for a key that is no text, and `NotStorable` for
    one that is not valid Unicode.
    """
    if not isinstance(cast(object, key), str):
        raise ConfigurationError(f"key: Expected `str`, got `{type(key).__name__}`")
    storable(key, "key")
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def session_or_unnamed(session: str | None, key: str | None = None) -> str:
    """Return the id that the caller chose for what is to be run; for None that of the key, or a new one without a key.

    Raises `ConfigurationError` for dots alone. Sessions that were called so before are looked at and erased as others.
    Any other value is left to the check of ids: an empty text or a number 0 that stood for no id would begin a session
    at each call, and so do the work again.
    """
    if session in (".", ".."):
        # A browser takes it out of a path before it asks: no page of such a run could be reached.
        raise ConfigurationError(f"{session!r} cannot be the id of what is run: in an address it leads elsewhere")
    if session is not None:
        return session
    return session_for_key(key) if key is not None else new_id("run")
