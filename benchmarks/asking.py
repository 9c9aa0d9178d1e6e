"""How long a dashboard's questions take over the views of very many runs.

No log stands behind these runs: their rows are made as the tests make them. Each question is asked first on connections
that were just opened, and then again and again. A question may be several statements, one after another.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.meter import progress
from benchmarks.places import Site
from steptrail.projections.asking.statements import Statement
from tests.harness.asked_questions import asked_questions
from tests.harness.asked_views import AskedViews

_AGAIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFigures:
    """One question over `runs` runs: milliseconds by the clock, of the first call and the median of the others."""

    what: str
    runs: int
    rows: int
    first_ms: float
    wall_ms: float


async def measure_asking(site: Site, runs: int) -> Sequence[AnswerFigures]:
    """Ask every question over so many runs."""
    progress(f"{site.name}: questions over {runs:,} runs")
    place = site.fresh()
    try:
        return await asyncio.to_thread(_asked, place.url, runs)
    finally:
        place.remove()


def _asked(url: str, runs: int) -> list[AnswerFigures]:
    AskedViews(url, runs, of=runs).close()
    return [_figures(url, what, question, runs) for what, question in asked_questions(runs).items()]


def _figures(url: str, what: str, question: Sequence[Statement], runs: int) -> AnswerFigures:
    asked = AskedViews(url, 0, of=runs)
    try:
        first, rows = _once(asked, question)
        times = [_once(asked, question)[0] for _ in range(_AGAIN)]
    finally:
        asked.close()
    return AnswerFigures(what=what, runs=runs, rows=rows, first_ms=first, wall_ms=median(times))


def _once(asked: AskedViews, question: Sequence[Statement]) -> tuple[float, int]:
    began = time.perf_counter()
    rows = sum(len(asked.ask(each)) for each in question)
    return 1000 * (time.perf_counter() - began), rows
