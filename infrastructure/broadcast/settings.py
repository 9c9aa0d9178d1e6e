"""The checks of what broadcasting is given: a transport, a configuration, and how much may wait.

They come at once, where it is made. What a delivery finds out later nobody hears of who waits for it.
"""

from typing import Any, TypeVar, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.projections.broadcast import BroadcastConfig

__all__ = ["checked_broadcast_config", "checked_count", "checked_transport"]

T = TypeVar("T")


def checked_transport(transport: T) -> T:
    """Return the transport. Raises `ConfigurationError` for one that lacks what a `BroadcastTransport` has."""
    given, name = cast(Any, transport), type(transport).__name__
    if isinstance(given, type):
        raise ConfigurationError(f"the transport is the class {given.__name__}: give an object of it")
    if not callable(getattr(given, "send", None)):
        raise ConfigurationError(f"the transport, of type {name}, has no `async def send(messages)`")
    checked_count(getattr(given, "most_messages", None), f"`most_messages` of the transport {name}")
    if (most_bytes := getattr(given, "most_bytes", None)) is not None:
        checked_count(most_bytes, f"`most_bytes` of the transport {name}")
    return transport


def checked_broadcast_config(config: BroadcastConfig | None) -> BroadcastConfig:
    """Return the configuration, or the standard one. Raises `ConfigurationError` for anything else."""
    given: Any = BroadcastConfig() if config is None else config
    if not isinstance(given, BroadcastConfig):
        raise ConfigurationError(f"`config` is a BroadcastConfig, not {type(given).__name__}")
    return given


def checked_count(number: object, what: str) -> int:
    """Return a number from 1. Raises `ConfigurationError` for anything else."""
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigurationError(f"{what} is {repr(number)[:100]}: use 1 or more")
    return number
