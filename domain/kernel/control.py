"""What owning a stream means: what the kernel must know of a state to lease the stream, drive, pause and stop it."""

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from steptrail.domain.kernel.commands import Pause, Stop
from steptrail.domain.kernel.standing import Standing

__all__ = ["Control"]

S = TypeVar("S")
C = TypeVar("C")


class Control(NamedTuple, Generic[S, C]):
    """What the kernel asks of a state `S` of a machine with commands `C`. All of it is pure.

    `standing` says where the stream stands. `asked` is what was asked of its newest run: a stop rather than a pause,
    and neither once it is paused; while the run is open it has not been carried out yet. `stop_grace` is None until a
    stop was asked for; then it says how many seconds running effects are left before they are cancelled. `reopen`
    returns the command by which a worker opens a further segment with what is recorded, and is told whether the worker
    took the stream from a live owner; it returns None where no run is open.

    `version_of_key` is the version at which the command that came with a key had been carried out, None when there was
    no such command or it is being carried out. `children` are the streams that this one began and that it is
    responsible for: those that go on beside it, or were left behind when it ended.
    """

    standing: Callable[[S], Standing]
    asked: Callable[[S], Pause | Stop | None]
    stop_grace: Callable[[S], float | None]
    reopen: Callable[[S, str, bool], C | None]
    version_of_key: Callable[[S, str], int | None]
    children: Callable[[S], Sequence[str]]
