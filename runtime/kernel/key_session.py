"""Chooses the id of a session for a command that names none, from its idempotency key if it has one."""

import hashlib
from typing import cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.storable import storable
from steptrail.runtime.kernel.ids import new_id


def session_for_key(key: str) -> str:
    """Return the id of the session that a command with this key is for, if the caller named no session.

    The id is always the same for a key. Raises `ConfigurationError` for a key that is no text, and `NotStorable` for
    one that is not valid Unicode.
    """
    if not isinstance(cast(object, key), str):
        raise ConfigurationError(f"key: Expected `str`, got `{type(key).__name__}`")
    storable(key, "key")
    return f"key-{hashlib.sha256(key.encode()).hexdigest()[:32]}"


def unnamed_session(key: str | None) -> str:
    """Return the id of the session for a command that names none: that of its key, or a new one without a key."""
    return session_for_key(key) if key is not None else new_id("run")


def session_or_unnamed(session: str | None, key: str | None) -> str:
    """Return the id that the caller chose; for None that of `unnamed_session`.

    Any other value is left to the check of ids: an empty text or a number 0 that stood for no id would begin a session
    at each call, and so do the work again.
    """
    return unnamed_session(key) if session is None else session
