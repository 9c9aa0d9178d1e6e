"""The ids of sessions, executions and effects, and how they are derived from each other.

A session's id is text that the caller may choose. All ids below it are derived from it and from counts. So the same
effect has the same id over retries, crashes and machines, and its id can be given to the outside world as an
idempotency key.
"""

from typing import NewType

from steptrail.domain.kernel.names import checked_name

SessionId = NewType("SessionId", str)

STREAM_PREFIX = "agent:"
"""The beginning of the id of every stream that holds a session."""


def checked_session_id(text: str) -> SessionId:
    """Return an id that a caller chose. Raises `ConfigurationError` unless it is a name; see `checked_name`."""
    return SessionId(checked_name(text, "a session id"))


def execution_id(session: SessionId, ordinal: int) -> str:
    """Return the id of the session's execution number `ordinal`, from 1."""
    return f"{session}:{ordinal}"


def effect_id(execution: str, step: int, position: int) -> str:
    """Return the id of the tool call at `position` (from 0) of step `step` (from 1)."""
    return f"{execution}:{step}:{position}"


def position_of(effect: str) -> int:
    """Return the position of the tool call whose effect has this id; -1 for a text that is no such id."""
    try:
        return int(effect.rpartition(":")[2])
    except ValueError:
        return -1


def is_effect_of(session: str, effect: str) -> bool:
    """Tell whether an effect is one of the session. A fork has effects of its source in its past."""
    return effect.startswith(f"{session}:")


def stream_of(session: SessionId) -> str:
    """Return the id of the stream that holds a session."""
    return STREAM_PREFIX + session
