"""The checks of a Pusher transport's settings: one with which no request could ever succeed is refused at once.

A transport that is unavailable is tried again for ever, so what is refused here would be waited for without an end.
"""

import re
from typing import Any, Final

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_time, a_whole

_HOST: Final = re.compile(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]")
_CLUSTER: Final = re.compile(r"[A-Za-z0-9-]+")
# It is written into an address as it is, and before a `:` into what a client is given.
_KEY: Final = re.compile(r"(?!.*[&#%+:])[!-~]+")
_NAME: Final = re.compile(r".{1,200}", re.DOTALL)
_MOST_PORT: Final = 65_535


def check_pusher_settings(
    *, key: Any, secret: Any, host: Any, port: Any, cluster: Any, timeout: Any, event_name: Any, most_bytes: Any
) -> None:
    """Return when all can be used. Raises `ConfigurationError`, which tells no secret, for the first that cannot."""
    if not isinstance(secret, str) or not secret:
        raise ConfigurationError("PusherTransport: `secret` is a text that is not empty")
    about = "PusherTransport: `{}`".format
    for name, given, is_right, use in (
        ("key", key, _is(key, _KEY), "the key of the app, without spaces or & # % + :"),
        ("host", host, host is None or _is(host, _HOST), "a name or an address without scheme and port, or None"),
        ("cluster", cluster, cluster is None or _is(cluster, _CLUSTER), "a word such as 'eu', or None"),
        ("event_name", event_name, _is(event_name, _NAME), "1 to 200 characters"),
    ):
        if not is_right:
            raise ConfigurationError(f"{about(name)} is {repr(given)[:100]}: use {use}")
    a_time(timeout, about("timeout"))
    a_whole(most_bytes, about("most_bytes"), least=1)
    if port is not None and a_whole(port, about("port"), least=1) > _MOST_PORT:
        raise ConfigurationError(f"{about('port')} is {port}: use a number from 1 to {_MOST_PORT}, or None")


def _is(text: Any, form: re.Pattern[str]) -> bool:
    return isinstance(text, str) and form.fullmatch(text) is not None
