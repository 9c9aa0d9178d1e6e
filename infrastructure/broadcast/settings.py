"""The checks of what broadcasting is given: a transport and a configuration.

They come at once, where it is made. What a delivery finds out later nobody hears of who waits for it.
"""

from typing import Any, TypeVar, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_kind_of, a_whole
from steptrail.projections.broadcast import BroadcastConfig

T = TypeVar("T")


def checked_transport(transport: T) -> T:
    """Return the transport. Raises `ConfigurationError` for one that lacks what a `BroadcastTransport` has."""
    given, name = cast(Any, transport), type(transport).__name__
    if isinstance(given, type):
        raise ConfigurationError(f"the transport is the class {given.__name__}: give an object of it")
    if not callable(getattr(given, "send", None)):
        raise ConfigurationError(f"the transport, of type {name}, has no `async def send(messages)`")
    a_whole(getattr(given, "most_messages", None), f"`most_messages` of the transport {name}", least=1)
    if (most_bytes := getattr(given, "most_bytes", None)) is not None:
        a_whole(most_bytes, f"`most_bytes` of the transport {name}", least=1)
    return transport


def checked_broadcast_config(config: BroadcastConfig | None) -> BroadcastConfig:
    """Return the configuration, or the standard one. Raises `ConfigurationError` for anything else."""
    return BroadcastConfig() if config is None else a_kind_of(BroadcastConfig, config, "config")
