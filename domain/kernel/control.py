"""The questions that the kernel asks of a state in order to lease its stream, drive it, pause it and stop it."""

from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar

from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.domain.kernel.standing import Standing
from steptrail.domain.shared.summary import RunSummary

S = TypeVar("S")
C = TypeVar("C")


class Control(NamedTuple, Generic[S, C]):
    """Answers the kernel's questions about a state `S` of a machine with commands `C`. All functions are pure.

    `standing` returns where the stream stands, and `summary` the row of the index for it. `asked` returns the pause or
    stop that was requested of the newest run: the stop when there are both, and None when the run is paused. While the
    run is open, that request is still to be carried out. `stop_grace` returns how many seconds running effects may go
    on before they are cancelled; None while no stop is requested. `reopen` returns the command with which a worker
    opens the next segment, by the recorded settings; None when no run is open. Its arguments are the state, the
    worker's name, and whether the worker took the stream from a live owner.

    `version_of_key` returns the version at which the command with an idempotency key was carried out; None when there
    was no such command, or when it is still being carried out. `children` returns the streams that this one began and
    is responsible for: those that run beside it, those at work first, and those that were left behind when it ended,
    each with the instant from which this one went on without it, if it did.
    `began_again_and_ended` returns the instants at which the newest run began, if it is not the first one of its
    stream, and ended (microseconds of UTC); None for what has not happened.
    """

    standing: Callable[[S], Standing]
    summary: Callable[[S], RunSummary]
    asked: Callable[[S], Pause | Stop | None]
    reopen: Callable[[S, str, bool], C | None]
    version_of_key: Callable[[S, str], int | None]
    children: Callable[[S], Mapping[str, int | None]]
    began_again_and_ended: Callable[[S], tuple[int | None, int | None]]
    stop_grace: Callable[[S], float | None] = lambda state: None
