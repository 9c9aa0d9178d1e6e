"""Checks what a service gives to `Steptrail.open`, before anything is opened: nothing has to be closed again then."""

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_flag
from steptrail.infrastructure.store.opening import open_store
from steptrail.runtime.kernel.given_code import a_store

if TYPE_CHECKING:
    from steptrail.infrastructure.telemetry.telemetry import Telemetry
    from steptrail.projections.kernel.projection import Projection


def check_opening(store: object, live: object, clock: object, telemetry: "Telemetry | None") -> None:
    """Raise `ConfigurationError` for no address or store, no switch, no clock, or no telemetry of a new trail.

    And inside trio, where nothing that it returns could be awaited, and the blocking API would hold up all else.
    """
    _refuse_trio()
    if not isinstance(store, str):
        a_store(store)
    a_flag(live, "`live`")
    has_both = all(callable(getattr(clock, name, None)) for name in ("utc", "monotonic"))
    if clock is not None and (isinstance(clock, type) or not has_both):
        raise ConfigurationError(
            f"`clock` is an object with the methods `utc` and `monotonic`, not {type(clock).__name__}"
        )
    if telemetry is not None:
        from steptrail.infrastructure.telemetry.telemetry import Telemetry

        if not isinstance(telemetry, Telemetry):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"`telemetry` is a `Telemetry(...)` of steptrail.telemetry, not {type(telemetry).__name__}"
            )
        telemetry.check_unused()


def _refuse_trio() -> None:
    if (trio := sys.modules.get("trio.lowlevel")) is None:
        return
    try:
        trio.current_trio_token()
    except RuntimeError:  # there is trio, and this is not run by it
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError(
            "this is run by trio, and a trail needs asyncio: run it with `anyio.run(main)` or `asyncio.run(main())`, "
            "or use `Steptrail.open_sync` in a thread, as `anyio.to_thread.run_sync` begins one"
        ) from None


def refuse_settings_of_addresses(
    durability: object, busy_timeout: object, *, create: object, read_only: object
) -> None:
    """Raise `ConfigurationError` for what was set of a store that is open already."""
    given = {"durability": durability, "busy_timeout": busy_timeout, "create": create, "read_only": read_only}
    usual = open_store.__kwdefaults__ or {}
    if set_here := [f"`{name}`" for name, value in given.items() if value != usual[name]]:
        raise ConfigurationError(f"{', '.join(set_here)} belong to an address, and this store is open already")


def checked_projections(given: Any) -> "tuple[Projection[Any], ...]":
    """Return the projections of a service. Raises `ConfigurationError` for what is none."""
    if given is None:
        return ()
    try:
        listed = tuple(given)
    except TypeError:
        raise ConfigurationError(f"`projections` are a list of projections, not {type(given).__name__}") from None
    if not listed:
        return ()
    from steptrail.interfaces.python.views_of_runs import own_projections

    return tuple(own_projections(listed))
