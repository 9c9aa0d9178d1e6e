"""Makes new ids: a prefix and a UUID of version 7 (RFC 9562), so that ids sort by the time at which they were made."""

import os
import threading
import time

__all__ = ["new_id"]

_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """Return `<prefix>-<uuid7>`. Of two ids of one process, the later one always sorts after the other."""
    global _last
    with _lock:
        # The stamp has 48 bits of milliseconds and 12 bits of their fraction. Two equal stamps must not occur.
        stamp = max((time.time_ns() << 12) // 1_000_000, _last + 1)
        _last = stamp
    milliseconds, fraction = stamp >> 12, stamp & 0xFFF
    tail = int.from_bytes(os.urandom(8)) & 0x3FFF_FFFF_FFFF_FFFF
    value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | tail
    text = f"{value:032x}"
    return f"{prefix}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
