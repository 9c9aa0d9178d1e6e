"""Sessions that stand for the key of a command."""

import hashlib

__all__ = ["session_for_key"]


def session_for_key(key: str) -> str:
    """Return the session that belongs to a key when the caller named none: always the same one."""
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
