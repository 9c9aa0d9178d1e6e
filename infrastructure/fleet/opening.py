"""From the name of an engine to the engine: `procrastinate`, or `procrastinate+postgresql://host/database`.

Behind a `?` stand the settings of the engine, which are seconds, such as `procrastinate?stalled_after=30`, beside the
parameters of the address. The packages of an engine are imported when one is asked for, and not before.
"""

from steptrail.domain.errors import ConfigurationError, shown
from steptrail.domain.secrets import without_secrets
from steptrail.runtime.kernel.engine import Engine

_NAME = "procrastinate"
_POSTGRESQL = ("postgresql://", "postgres://")
_METHODS = ("name", "open", "wake", "wake_missed", "cancel", "run", "report", "status", "close")
_SETTINGS = ("heartbeat", "stalled_after", "poll")


def engine_of(given: Engine | str | None, store_url: str) -> Engine | None:
    """Return the engine that is meant; None when none is.

    `procrastinate` alone is one in the database of the store. Raises `ConfigurationError` for what is not understood,
    and `MissingExtra` where its packages are not installed.
    """
    if given is None:
        return None
    if not isinstance(given, str):
        if isinstance(given, type) or any(not hasattr(given, name) for name in _METHODS):
            wanted = f"{_NAME!r}, or an object with the methods of `steptrail.fleet.Engine`"
            raise ConfigurationError(f"`engine` is {wanted}, not {type(given).__name__}")
        return given
    address, settings = _settings(given)
    name, plus, url = address.partition("+")
    if name != _NAME or (plus and not url.startswith(_POSTGRESQL)):
        msg = f"the engine {shown(without_secrets(given))} is not understood: give {_NAME}"
        raise ConfigurationError(f"{msg}, or {_NAME}+postgresql://USER@HOST/DATABASE")
    if not plus and not store_url.startswith(_POSTGRESQL):
        place = shown(without_secrets(store_url)) if store_url else "elsewhere"
        msg = f"{_NAME} needs PostgreSQL, and the store is {place}"
        raise ConfigurationError(f"{msg}: open the store there, or give {_NAME}+postgresql://USER@HOST/DATABASE")
    from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine

    return ProcrastinateEngine(url if plus else store_url, **settings)


def _settings(given: str) -> tuple[str, dict[str, float]]:
    """Return an address without the settings of an engine, and these."""
    address, _, query = given.partition("?")
    options = [option.partition("=") for option in query.split("&") if option]
    rest = "&".join(name + equals + value for name, equals, value in options if name not in _SETTINGS)
    try:
        settings = {name: float(value) for name, _, value in options if name in _SETTINGS}
    except ValueError as error:
        raise ConfigurationError(f"{', '.join(_SETTINGS)} of an engine are numbers of seconds: {error}") from None
    return f"{address}?{rest}" if rest else address, settings
