"""The consequences of a request to pause, to go on or to stop, for every kind of machine."""

from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.commands import CALLER, Pause, Stop, Unpause
from steptrail.domain.shared.events import ExecutionPaused, PauseLifted, PauseRequested, StopRequested
from steptrail.domain.shared.requests import Request


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


def asked_to_unpause(command: Unpause, run: str, execution: str | None, *, is_paused: bool) -> tuple[PauseLifted]:
    """Return the event. Raises `CommandRejected` for a run that is not paused; `execution` is the one that is open."""
    if not is_paused:
        why = "no execution is open" if execution is None else f"execution {execution} is not paused"
        raise CommandRejected("unpause", run, why)
    return (PauseLifted(by=command.by, reason=command.reason, key=command.key),)


def asked_to_stop(command: Stop, run: str, open_request: Request | None, *, is_open: bool) -> tuple[StopRequested, ...]:
    """Return the events; none when the run is asked to stop already. Raises `CommandRejected` for one that is over."""
    if not is_open:
        raise CommandRejected("stop", run, "no execution is open")
    return () if open_request is not None else (StopRequested(by=command.by, reason=command.reason, key=command.key),)


def asked_by_leaving(open_request: Request | None) -> tuple[tuple[PauseRequested, ...], str, str | None]:
    """Return the request for the pause of an owner that leaves, if it is the owner's own, who pauses, and why."""
    if open_request is not None and open_request.is_by_person:
        return (), open_request.by, open_request.reason
    own = PauseRequested(by=CALLER, reason="cancelled")
    return (own,), own.by, own.reason


def asked_for(stop: Request | None, pause: Request | None) -> Pause | Stop | None:
    """Return what an owner is asked to do, by open requests: to stop before all else; None for nothing."""
    if stop is not None:
        return Stop(by=stop.by, reason=stop.reason)
    return None if pause is None else Pause(by=pause.by, reason=pause.reason)


def _asked(command: Pause) -> PauseRequested:
    return PauseRequested(by=command.by, reason=command.reason, key=command.key)
