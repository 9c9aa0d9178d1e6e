"""Tells how a run waits whose resources could not be opened."""

from typing import Any, Final

from steptrail.domain.policy.backoff import Backoff
from steptrail.domain.shared.events import WaitStarted
from steptrail.domain.shared.state import StreamState

_OPEN_AGAIN: Final = Backoff.exponential(base_seconds=1.0, max_seconds=300.0)


def wait_for_resources(state: StreamState[Any], problem: str) -> WaitStarted:
    """Return the wait until they are opened again, which is longer after each such wait in a row.

    `problem` is the class of the exception, and the state is as of when it was raised.
    """
    unopened = state.fold.execution.unopened if state.fold.execution is not None else 0
    until = state.as_of + round(_OPEN_AGAIN.delay(1 + unopened, 0.0) * 1e6)
    return WaitStarted(kind="resources", until=until, problem=problem)
