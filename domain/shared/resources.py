"""Tells when the resources of a run that could not be opened are opened again."""

from typing import Final

from steptrail.domain.policy.backoff import Backoff

_OPEN_AGAIN: Final = Backoff.exponential(base_seconds=1.0, max_seconds=300.0)


def open_again_at(now: int, unopened: int) -> int:
    """Return when they are to be opened again, in microseconds of UTC.

    `now` is when they could not be opened, and `unopened` counts the waits for them in a row before that.
    """
    return now + round(_OPEN_AGAIN.delay(1 + unopened, 0.0) * 1e6)
