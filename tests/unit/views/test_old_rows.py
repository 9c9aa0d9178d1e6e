"""Old rows, and those that belong to them, are found by an index, whatever indexes the tables name themselves."""

import sqlite3
from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace

from steptrail.infrastructure.views.aging import Aging
from steptrail.infrastructure.views.database import Answer, Selected
from steptrail.infrastructure.views.ddl import SQLITE, statements_to_make
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Index, Scalar
from steptrail.projections.runs_view.tables import ROWS
from steptrail.projections.runs_view.view import RunsView
from tests.views.ageing import PARTS, THINGS, Ageing


class Planned:
    """Runs statements on a database in memory, and keeps how each was done."""

    def __init__(self, projection: Projection[object]) -> None:
        self.plans: list[str] = []
        self._connection = sqlite3.connect(":memory:")
        for table in projection.tables:
            for statement in statements_to_make(SQLITE, table):
                self._connection.execute(statement)

    def ask(self, text: str, *values: Scalar) -> Answer:
        given = {str(number): value for number, value in enumerate(values, 1)}
        self.plans += [line for *_, line in self._connection.execute(f"EXPLAIN QUERY PLAN {text}", given)]
        return self._connection.execute(text, given).fetchall()

    def select(self, text: str, values: Sequence[Scalar], most: int) -> Selected:
        raise NotImplementedError

    def change(self, text: str, *values: Scalar) -> int:
        self.ask(text, *values)
        return 0

    def change_all(self, text: str, rows: Iterable[Sequence[Scalar]]) -> None:
        self._connection.executemany(text, rows)

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize("projection", [Ageing(), RunsView()], ids=lambda each: each.name)
def test_no_table_is_gone_through_for_old_rows(projection: Projection[object]) -> None:
    planned, aging = Planned(projection), Aging(projection, "")
    changes = Changes()
    if THINGS in projection.tables:
        for version in (1, 2, 3):
            row: dict[str, Scalar] = {"stream": "agent:a", "version": version}
            changes.put(THINGS, {**row, "at": version})
            changes.put(PARTS, {"part": 1, **row})
            planned.change_all("INSERT INTO v1_things VALUES (?, ?, ?)", [("agent:a", version, version)])
            planned.change_all("INSERT INTO v1_parts VALUES (?, ?, ?)", [(1, "agent:a", version)])
        aging.after(planned, changes, 2)
        assert planned.ask("SELECT version FROM v1_parts WHERE stream = 'agent:a' AND version > 0") == [(2,), (3,)]
    aging.sweep(planned, 3, 20)
    aging.old_keys(planned, 3)
    assert [line for line in planned.plans if line.startswith(("SCAN", "USE TEMP B-TREE"))] == []
    planned.close()


def test_an_index_that_is_there_is_not_made_again() -> None:
    assert [tuple(index.columns) for index in THINGS.all_indexes] == [("at",)]
    named = replace(THINGS, indexes=(Index(("at", "version")),))
    assert named.all_indexes == [*named.indexes]
    for_some = replace(THINGS, indexes=(Index(("at",), "version > 1"),))
    assert [index.where for index in for_some.all_indexes] == ["version > 1", ""]
    assert [tuple(index.columns) for index in PARTS.all_indexes] == [("stream", "version")]
    assert all(
        table.all_indexes == [*table.indexes] for table in ROWS if table.key[0] == "execution" and not table.aged_by
    )
