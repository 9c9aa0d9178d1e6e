"""The consequences of a request to pause, to go on or to stop, for every kind of machine."""

from steptrail.domain.errors import CommandRejected
from steptrail.domain.kernel.commands import CALLER, Pause, Stop, Unpause
from steptrail.domain.shared.events import ExecutionPaused, PauseLifted, PauseRequested, StopRequested
from steptrail.domain.shared.requests import Request
from steptrail.domain.shared.state import F, StreamState


def steered(
    command: Pause | Unpause | Stop, run: str, state: StreamState[F], *, was_said_more: bool = False
) -> tuple[PauseRequested | ExecutionPaused | PauseLifted | StopRequested, ...]:
    """Return the events of a command; none when what it asks for holds already. Raises `CommandRejected`.

    `run` is the id of the session, and `was_said_more` says that something was said to it since it was paused.
    """
    is_paused = state.fold.phase == "paused"
    match command:
        case Pause():
            return _asked_to_pause(command, run, state, is_paused=is_paused, was_said_more=was_said_more)
        case Unpause() if state.fold.phase == "unpaused":
            return ()
        case Unpause():
            return _asked_to_unpause(command, run, state, is_paused=is_paused)
        case Stop():
            return _asked_to_stop(command, run, state)


def _asked_to_pause(
    command: Pause, run: str, state: StreamState[F], *, is_paused: bool, was_said_more: bool
) -> tuple[PauseRequested | ExecutionPaused, ...]:
    """Return the events.

    A pause by `CALLER` does not keep workers from a run, nor does one since which more was said. That of a person does,
    so it takes the other's place.
    """
    if not state.is_open:
        raise CommandRejected("pause", run, "no execution is open")
    asked = PauseRequested(by=command.by, reason=command.reason, key=command.key)
    if not is_paused:
        before = state.pause_request
        holds = before is not None and (before.is_by_person or command.by == CALLER)
        return () if holds else (asked,)
    is_due = was_said_more or (state.paused is not None and not state.paused.is_by_person)
    if not is_due or command.by == CALLER:
        return ()
    return (asked, ExecutionPaused(by=command.by, reason=command.reason, step_seconds=0.0))


def _asked_to_unpause(command: Unpause, run: str, state: StreamState[F], *, is_paused: bool) -> tuple[PauseLifted]:
    if not is_paused and state.pause_request is None:
        why = f"execution {state.execution_id} is not paused" if state.is_open else "no execution is open"
        raise CommandRejected("unpause", run, why)
    return (PauseLifted(by=command.by, reason=command.reason, key=command.key),)


def _asked_to_stop(command: Stop, run: str, state: StreamState[F]) -> tuple[StopRequested, ...]:
    if not state.is_open:
        raise CommandRejected("stop", run, "no execution is open")
    is_asked = state.stop_request is not None
    return () if is_asked else (StopRequested(by=command.by, reason=command.reason, key=command.key),)


def asked_by_leaving(open_request: Request | None) -> tuple[tuple[PauseRequested, ...], str, str | None]:
    """Return the request for the pause of an owner that leaves, if it is the owner's own, who pauses, and why."""
    if open_request is not None and open_request.is_by_person:
        return (), open_request.by, open_request.reason
    own = PauseRequested(by=CALLER, reason="cancelled")
    return (own,), own.by, own.reason


def asked_of(state: StreamState[F]) -> Pause | Stop | None:
    """Return what an owner is asked to do, by open requests: to stop before all else; None for nothing."""
    stop, pause = state.stop_request, state.pause_request
    if stop is not None:
        return Stop(by=stop.by, reason=stop.reason)
    return None if pause is None else Pause(by=pause.by, reason=pause.reason)
