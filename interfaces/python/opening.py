"""Checks what a service gives to `Steptrail.open`, before anything is opened: nothing has to be closed again then."""

from typing import TYPE_CHECKING, Any

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_flag

if TYPE_CHECKING:
    from steptrail.infrastructure.telemetry.telemetry import Telemetry
    from steptrail.projections.kernel.projection import Projection


def check_opening(url: object, live: object, clock: object, telemetry: "Telemetry | None") -> None:
    """Raise `ConfigurationError` for what is no address, no switch, no clock, or no telemetry of a new trail."""
    if not isinstance(url, str):
        raise ConfigurationError(
            f"the address of a store is a text such as 'sqlite:///runs.db', not {type(url).__name__}"
        )
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
