"""Derives the id of a session from an idempotency key."""

import hashlib

from steptrail.domain.storable import storable

__all__ = ["session_for_key"]


def session_for_key(key: str) -> str:
    """Return the id of the session that a command with this key is for, if the caller named no session.

    The id is always the same for a key. Raises `NotStorable` for a key that is not text.
    """
    storable(key, "key")
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
