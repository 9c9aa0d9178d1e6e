"""When all is counted anew without what was erased: rows of erased streams go at once, their parts of sums do not.

A short log is counted anew by who asks next. A long one is by a process that keeps read models going, beside those who
ask, and seldom enough that the share of a processor which this takes does not depend on how often something is erased.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set

from steptrail.domain.errors import ViewsBusy
from steptrail.infrastructure.views.generation import PlaceMoved, ViewProgress
from steptrail.runtime.kernel.log_raised import Seldom, said_by

_AT_ONCE = 20_000
"""How many positions a log may have to be counted anew at once: that takes half a second."""
_MICROSECONDS_A_POSITION = 1_000
"""How long sums of a longer log count what was erased, for each position. To count one anew takes about 25."""
_LOOK_SECONDS = 10.0

_log = logging.getLogger("steptrail.views")


def is_outdated(progress: ViewProgress, end: int) -> bool:
    """Whether sums count what was erased, in a log that ends so early that it is counted anew at once."""
    return progress.erased.streams > 0 and end <= _AT_ONCE


async def keep_exact(
    status: Callable[[], Awaitable[tuple[Sequence[ViewProgress], int, int]]],
    rebuild: Callable[[Set[str], int], Awaitable[object]],
    versions: Mapping[str, int],
    now: Callable[[], int],
) -> None:
    """Have all counted anew whenever sums have counted what was erased for long enough, until this is cancelled.

    `versions` are those of our projections by name. What others have, or a newer version, is left to a process that has
    all of it: counted anew by us, its rows would be gone for a while. `rebuild` is told which have stopped already, as
    no other one is to lose rows by it, and which generation it is for, as somebody else may have made another one.
    After each it rests, so that no clock that is behind has it done more often.
    """
    seldom = Seldom(_log)
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        rest = 0
        try:
            found, number, _ = await status()
            if (since := _erased_since(found, versions)) is None:
                continue
            patience = max(each.reached.position for each in found) * _MICROSECONDS_A_POSITION
            # A clock that was far ahead when something was erased does not keep it in sums until it is that time here.
            if abs(now() - since) >= patience:
                rest = patience
                await rebuild({each.name for each in found if each.error is not None}, number)
                seldom.over()
        except (PlaceMoved, ViewsBusy):
            continue  # somebody else is at it
        except Exception as error:
            if rest:  # else they could not be asked, which those tell who count
                seldom.warn("what was erased stays in sums for now: they cannot be counted anew: %s", said_by(error))
        await asyncio.sleep(rest / 1_000_000)  # to fail has cost as much as to succeed


def _erased_since(books: Sequence[ViewProgress], versions: Mapping[str, int]) -> int | None:
    """Return since when our sums count what was erased; None where they do not, or not all books are ours."""
    if any(each.version > versions.get(each.name, 0) for each in books):
        return None
    ours = (each.erased.since for each in books if each.version == versions[each.name])
    return min((since for since in ours if since is not None), default=None)
