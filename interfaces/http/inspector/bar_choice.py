"""Which bars of a run are shown: all of a stretch of events, those with errors, the slow ones, or the rests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from steptrail.interfaces.http.inspector.bars import DrawnRow

BARS: Final = ("errors", "slow", "rests")
"""The words by which bars are chosen."""
SLOW: Final = 2
"""A row is slow that takes at least so many times the median of all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenBars:
    """The bars of a stretch of events, and those of them that are shown.

    `word` is by what they are chosen, one of `BARS`, or None for all; `counts` has how many each word finds. `median`
    is the time, in seconds, that half of the rows take that are no rests, without the rests in them.
    """

    all: Sequence[DrawnRow]
    rows: Sequence[DrawnRow]
    word: str | None
    counts: Mapping[str, int]
    median: float


def chosen_bars(rows: Sequence[DrawnRow], word: str | None) -> ChosenBars:
    """Return the bars that a word chooses; for any other word, all."""
    half = median([row.active for row in rows if not row.is_rest] or [0.0])
    choices: Mapping[str, Callable[[DrawnRow], bool]] = {
        "errors": lambda row: row.has_error,
        "slow": lambda row: not row.is_rest and 0 < row.active >= SLOW * half,
        "rests": lambda row: row.is_rest,
    }
    found = {each: [row for row in rows if choices[each](row)] for each in BARS}
    return ChosenBars(
        all=rows,
        rows=found.get(word or "", rows),
        word=word if word in found else None,
        counts={each: len(rows) for each, rows in found.items()},
        median=half,
    )
