"""The checks of names that callers choose for streams and followers."""

import re

from steptrail.domain.errors import ConfigurationError, shown
from steptrail.domain.kernel.given import a_text

_LONGEST = 128
_ALLOWED = re.compile(rf"[A-Za-z0-9._@+=-]{{1,{_LONGEST}}}")


def is_name(text: str) -> bool:
    """Tell whether a text may be a name, or the beginning of one."""
    return _ALLOWED.fullmatch(text) is not None


def checked_name(text: str, what: str) -> str:
    """Return `text` if it is a name: 1 to 128 of the characters `A-Za-z0-9._@+=-`.

    Raises `ConfigurationError` otherwise. `what` says in its message what the name is for.
    """
    a_text(text, what)
    if not is_name(text):
        raise ConfigurationError(f"{shown(text)} cannot be {what}: use 1 to {_LONGEST} letters, digits or . _ @ + = -")
    return text
