"""The consequences of a request to pause, for every kind of machine."""

from steptrail.domain.kernel.commands import CALLER, Pause
from steptrail.domain.shared.events import ExecutionPaused, PauseRequested
from steptrail.domain.shared.requests import Request

__all__ = ["asked_to_pause", "asked_to_stay_paused"]


def asked_to_pause(command: Pause, open_request: Request | None) -> tuple[PauseRequested, ...]:
    """Return the events for a run that is not paused; none when the open request holds already."""
    return () if open_request is not None and _holds(open_request, command) else (_asked(command),)


def asked_to_stay_paused(command: Pause, paused: Request | None) -> tuple[PauseRequested | ExecutionPaused, ...]:
    """Return the events for a run that is paused, by this request or, in a fork, by none; none when that holds."""
    if paused is None or _holds(paused, command):
        return ()
    return (_asked(command), ExecutionPaused(by=command.by, reason=command.reason, step_seconds=0.0))


def _holds(request: Request, command: Pause) -> bool:
    """Tell whether the command would change nothing.

    A pause by `CALLER` does not keep workers from a run, and a person's does, so that takes the other's place.
    """
    return request.by != CALLER or command.by == CALLER


def _asked(command: Pause) -> PauseRequested:
    return PauseRequested(by=command.by, reason=command.reason, key=command.key)
