"""The checks of a Pusher transport's settings: one with which no request could ever succeed is refused at once.

A transport that is unavailable is tried again for ever, so what is refused here would be waited for without an end.
"""

import re
from math import isfinite
from typing import Any, Final

from steptrail.domain.errors import ConfigurationError

__all__ = ["check_pusher_settings"]

_HOST: Final = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]")
_CLUSTER: Final = re.compile(r"[A-Za-z0-9-]+")
# It is written into an address as it is, and before a `:` into what a client is given.
_KEY: Final = re.compile(r"[!-~]+")
_NOT_IN_A_KEY: Final = frozenset("&#%+:")
_MOST_NAME: Final = 200
_MOST_PORT: Final = 65_535


def check_pusher_settings(
    *, key: Any, secret: Any, host: Any, port: Any, cluster: Any, timeout: Any, event_name: Any, most_bytes: Any
) -> None:
    """Return when all can be used. Raises `ConfigurationError`, which tells no secret, for the first that cannot."""
    if not isinstance(secret, str) or not secret:
        raise ConfigurationError("PusherTransport: `secret` is a text that is not empty")
    checks: tuple[tuple[str, object, bool, str], ...] = (
        (
            "key",
            key,
            _is(key, _KEY) and not _NOT_IN_A_KEY & set(key),
            "the app's key, without spaces or any of & # % + :",
        ),
        (
            "host",
            host,
            host is None or _is(host, _HOST),
            "a name or an address, without scheme, port and path, or None",
        ),
        ("cluster", cluster, cluster is None or _is(cluster, _CLUSTER), "a word such as 'eu', or None"),
        (
            "port",
            port,
            port is None or (_is_count(port) and port <= _MOST_PORT),
            f"a number from 1 to {_MOST_PORT}, or None",
        ),
        ("timeout", timeout, _is_time(timeout), "a number of seconds above 0"),
        (
            "event_name",
            event_name,
            isinstance(event_name, str) and 0 < len(event_name) <= _MOST_NAME,
            "1 to 200 characters",
        ),
        ("most_bytes", most_bytes, _is_count(most_bytes), "a number of bytes, 1 or more"),
    )
    for name, given, is_right, use in checks:
        if not is_right:
            raise ConfigurationError(f"PusherTransport: `{name}` is {str(repr(given))[:100]}: use {use}")


def _is(text: Any, form: re.Pattern[str]) -> bool:
    return isinstance(text, str) and form.fullmatch(text) is not None


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1


def _is_time(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds > 0 and isfinite(seconds)
