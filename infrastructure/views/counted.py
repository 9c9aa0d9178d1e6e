"""Says how far what is counted goes, with an answer and by itself."""

from typing import NamedTuple

from steptrail.infrastructure.views.database import Answer


class AsOf(NamedTuple):
    """Up to where read models are counted: a position of the log, and the instant of the event there.

    The instant is in microseconds of UTC; 0 while nothing is counted.
    """

    position: int
    at: int


class Found(NamedTuple):
    """The rows of an answer, and up to where all is counted in them."""

    rows: Answer
    as_of: AsOf
