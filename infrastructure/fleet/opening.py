"""From the name of an engine to the engine: `procrastinate`, or `procrastinate+postgresql://host/database`.

The packages of an engine are imported when one is asked for, and not before.
"""

from steptrail.domain.errors import ConfigurationError, shown
from steptrail.domain.secrets import without_secrets
from steptrail.runtime.kernel.engine import Engine

__all__ = ["engine_of"]

_NAME = "procrastinate"
_POSTGRESQL = ("postgresql://", "postgres://")


def engine_of(given: Engine | str | None, store_url: str) -> Engine | None:
    """Return the engine that is meant; None when none is.

    `procrastinate` alone is one in the database of the store. Raises `ConfigurationError` for what is not understood,
    and `MissingExtra` where its packages are not installed.
    """
    if not isinstance(given, str):
        return given
    name, plus, url = given.partition("+")
    if name != _NAME or (plus and not url.startswith(_POSTGRESQL)):
        msg = f"the engine {shown(without_secrets(given))} is not understood: give {_NAME}"
        raise ConfigurationError(f"{msg}, or {_NAME}+postgresql://USER@HOST/DATABASE")
    if not plus and not store_url.startswith(_POSTGRESQL):
        msg = f"{_NAME} needs PostgreSQL, and the store is {shown(without_secrets(store_url)) or 'elsewhere'}"
        raise ConfigurationError(f"{msg}: open the store there, or give {_NAME}+postgresql://USER@HOST/DATABASE")
    from steptrail.infrastructure.fleet.procrastinate import ProcrastinateEngine

    return ProcrastinateEngine(url if plus else store_url)
