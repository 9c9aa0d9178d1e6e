"""Sessions that stand for something else: the key of a command, or the tool call that runs them."""

import hashlib

__all__ = ["session_for_call", "session_for_key"]


def session_for_key(key: str) -> str:
    """Return the session that belongs to a key when the caller named none: always the same one."""
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def session_for_call(effect_id: str) -> str:
    """Return the session that a tool call runs: always the same one, whoever runs the call again."""
    return f"child-{hashlib.sha256(effect_id.encode()).hexdigest()[:32]}"
