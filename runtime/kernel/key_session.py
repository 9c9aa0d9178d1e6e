"""Sessions that stand for the key of a command."""

import hashlib

from steptrail.domain.storable import storable

__all__ = ["session_for_key"]


def session_for_key(key: str) -> str:
    """Return the session that belongs to a key when the caller named none: always the same one.

    Raises `NotStorable` for a key that is not text.
    """
    storable(key, "key")
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
