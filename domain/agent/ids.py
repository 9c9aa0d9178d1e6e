"""How ids are made from other ids.

A session's id is text that the caller may choose. Everything below it is derived from it and from counts, so the same
thing has the same id over retries, crashes and machines: an effect id can be given to the outside world as an
idempotency key.
"""

import hashlib
from typing import NewType

from steptrail.domain.kernel.names import checked_name, is_name

__all__ = [
    "STREAM_PREFIX",
    "EffectId",
    "ExecutionId",
    "SessionId",
    "checked_session_id",
    "effect_id",
    "execution_id",
    "is_session_id",
    "session_for_call",
    "session_of",
    "stream_of",
]

SessionId = NewType("SessionId", str)
ExecutionId = NewType("ExecutionId", str)
EffectId = NewType("EffectId", str)

STREAM_PREFIX = "agent:"
"""What the id of every stream that holds a session begins with."""


def is_session_id(text: str) -> bool:
    """Tell whether a text may be the id of a session, and so the beginning of one."""
    return is_name(text)


def checked_session_id(text: str) -> SessionId:
    """Check an id that a caller chose. Raises `ConfigurationError` when it is not 1 to 128 of `A-Za-z0-9._@+=-`."""
    return SessionId(checked_name(text, "a session id"))


def execution_id(session: SessionId, ordinal: int) -> ExecutionId:
    """Return the id of the session's execution number `ordinal`, from 1."""
    return ExecutionId(f"{session}:{ordinal}")


def effect_id(execution: ExecutionId, step: int, position: int) -> EffectId:
    """Return the id of the tool call at `position` (from 0) of step `step` (from 1)."""
    return EffectId(f"{execution}:{step}:{position}")


def session_for_call(effect_id: str) -> str:
    """Return the session that a tool call runs: always the same one, whoever runs the call again."""
    return f"child-{hashlib.sha256(effect_id.encode()).hexdigest()[:32]}"


def stream_of(session: SessionId) -> str:
    """Return the id of the stream that holds a session."""
    return STREAM_PREFIX + session


def session_of(stream: str) -> SessionId:
    """Return the session that a stream holds."""
    return SessionId(stream.removeprefix(STREAM_PREFIX))
