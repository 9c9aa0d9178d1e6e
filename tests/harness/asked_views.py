"""Tables of runs that are filled without a log, to be asked."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from steptrail.infrastructure.store.opening import open_store
from steptrail.infrastructure.views.generation import Generation
from steptrail.infrastructure.views.views import Views
from steptrail.interfaces.python.asking_runs import AskingRuns
from steptrail.interfaces.python.views_of_runs import views_of_runs
from steptrail.projections.asking.statements import Statement
from steptrail.projections.runs_view.view import RunsView
from tests.harness.many_runs import BEGINNING, DAY, fill

T = TypeVar("T")


class AskedViews:
    """The tables of so many runs of `of`, in the views of the store at `url`, and what they answer."""

    def __init__(self, url: str, runs: int, *, of: int) -> None:
        self.of = of
        self._loop = asyncio.Runner()
        self._store = open_store(url)
        self._views = views_of_runs(self._store)
        self.generation: Generation = self._loop.run(self._views.present())
        if runs:
            fill(self.generation, runs, of=of)
            self.generation.analyze([RunsView()])

    def add(self, first: int, runs: int) -> None:
        """Add runs behind the first ones."""
        fill(self.generation, runs, first=first, of=self.of)

    def ask(self, statement: Statement) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self.generation.database.read(lambda statements: statements.ask(statement.text, *statement.values))

    def plan(self, statement: Statement) -> Sequence[str]:
        """Return what the database does to answer a statement, without what depends on the number of rows."""
        if self.generation.database.sql.has_comments:
            explained = self.ask(Statement(f"EXPLAIN (COSTS OFF) {statement.text}", statement.values))
            return [row[0] for row in explained]
        return [row[3] for row in self.ask(Statement(f"EXPLAIN QUERY PLAN {statement.text}", statement.values))]

    def asking(self) -> AskingRuns:
        """Return what `trail.views` asks with, of the tables as they are. Use it in `run`."""

        async def as_it_is(_: object) -> Views:
            return self._views

        return AskingRuns(as_it_is, self._store, lambda: BEGINNING + 30 * DAY)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns, in the loop of the views."""
        return self._loop.run(work)

    def close(self) -> None:
        """Close the store and its views."""
        self._loop.run(self._views.close())
        self._loop.run(self._store.close())
        self._loop.close()
