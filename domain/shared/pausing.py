"""The consequences of a request to pause, for every kind of machine."""

from steptrail.domain.kernel.commands import CALLER, Pause
from steptrail.domain.shared.events import ExecutionPaused, PauseRequested
from steptrail.domain.shared.requests import Request

__all__ = ["asked_to_pause", "asked_to_stay_paused"]


def asked_to_pause(command: Pause, open_request: Request | None) -> tuple[PauseRequested, ...]:
    """Return the events for a run that is not paused; none when the open request holds already.

    A pause by `CALLER` does not keep workers from a run, and a person's does, so that takes the other's place.
    """
    holds = open_request is not None and (open_request.is_by_person or command.by == CALLER)
    return () if holds else (_asked(command),)


def asked_to_stay_paused(command: Pause, *, is_due: bool) -> tuple[PauseRequested | ExecutionPaused, ...]:
    """Return the events for a run that is paused; none when that pause keeps workers from it, or would not then."""
    if not is_due or command.by == CALLER:
        return ()
    return (_asked(command), ExecutionPaused(by=command.by, reason=command.reason, step_seconds=0.0))


def _asked(command: Pause) -> PauseRequested:
    return PauseRequested(by=command.by, reason=command.reason, key=command.key)
