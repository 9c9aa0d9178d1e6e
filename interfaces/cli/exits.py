"""Exit codes, and the refusals that become one line on standard error."""

from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

from steptrail.domain.shared.run import ExecutionStatus, StopReason
from steptrail.runtime.agent.result import RunResult


class Exit(IntEnum):
    """The exit codes of commands. The reading commands answer `OK`."""

    OK = 0
    FAILED = 1
    """The run failed, or `doctor` found damage."""
    REFUSED = 2
    """The command was wrong, or named what is not there."""
    LIMITED = 3
    """The run stopped for a limit, a guard or a user, without an answer."""
    OPEN = 4
    """The run is paused or waits."""
    BUSY = 5
    """Another process owns the session."""
    ERRORS = 6
    """The workflow completed, and failures were recorded on the way."""
    AWAY = 7
    """The store, or a receiver of spans, is locked, full or away: the same command may succeed later."""
    UNKNOWN = 8
    """It cannot be known whether the store has what was asked for: look before the same is asked again."""
    INTERRUPTED = 130
    """Ctrl-C, where no run could be paused."""
    TERMINATED = 143
    """SIGTERM, or the end of its terminal, likewise."""


class Refusal(Exception):
    """The command cannot be carried out as it was given. The text is one line that says what to do."""


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Raise `Refusal` where a file cannot be written inside of this block."""
    try:
        yield
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror or error}") from error


def exit_of(result: RunResult[Any]) -> Exit:
    """Return the exit code of `run`, `resume`, `retry` and `send` for where the session stands."""
    if result.status is ExecutionStatus.COMPLETED:
        return Exit.OK if result.answered or result.stop_reason is StopReason.COMPLETED else Exit.LIMITED
    return exit_of_status(result.status)


def exit_of_status(status: ExecutionStatus) -> Exit:
    """Return the exit code for a status, of whatever stands there."""
    match status:
        case ExecutionStatus.COMPLETED:
            return Exit.OK
        case ExecutionStatus.FAILED:
            return Exit.FAILED
        case ExecutionStatus.STOPPED:
            return Exit.LIMITED
        case ExecutionStatus.IN_PROGRESS:
            return Exit.BUSY
        case ExecutionStatus.PAUSED | ExecutionStatus.WAITING | ExecutionStatus.PENDING:
            return Exit.OPEN
