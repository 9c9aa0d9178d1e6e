"""Rows are put with statements for several of them where that is quicker, each row once."""

import sqlite3

import pytest

from steptrail.infrastructure.views.ddl import POSTGRES, SQLITE, Values, statements_to_make
from steptrail.projections.kernel.table import Column, ColumnKind, Table

NUMBER, TEXT, MORE = (
    Column("number", ColumnKind.INTEGER, "which"),
    Column("text", ColumnKind.TEXT, "words", is_optional=True),
    Column("more", ColumnKind.INTEGER, "more", is_optional=True),
)
TABLE = Table(name="t", says="rows", columns=(NUMBER, TEXT, MORE), key=("number",))
AT_ONCE = SQLITE.values_at_once // 3


@pytest.mark.parametrize("many", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE, 4 * AT_ONCE - 1])
def test_all_rows_are_put_however_many_they_are(many: int) -> None:
    rows: list[Values] = [(number, f"the {number}", None) for number in range(many)]
    connection = sqlite3.connect(":memory:")
    for statement in statements_to_make(SQLITE, TABLE):
        connection.execute(statement)
    connection.execute("INSERT INTO t VALUES (0, 'before', 7), (-1, 'kept', 7)")
    for text, values in SQLITE.puts(TABLE, [row[:2] for row in rows], columns=(NUMBER, TEXT)):
        connection.executemany(text, values)
    found = connection.execute("SELECT * FROM t ORDER BY number").fetchall()
    # What is not given is None, also in a row that is there.
    assert found == [(-1, "kept", 7), *(rows or [(0, "before", 7)])]
    connection.close()


def test_a_statement_has_no_more_values_than_old_libraries_take() -> None:
    wide = Table(
        name="t", says="rows", columns=[NUMBER, *[MORE._replace(name=f"c{n}") for n in range(70)]], key=("number",)
    )
    for columns, many in ((3, AT_ONCE), (71, 7), (71, 500)):
        table = TABLE if columns == 3 else wide
        statements = [*SQLITE.puts(table, [tuple(range(columns))] * many)]
        assert all(text.count("?") <= 999 for text, _ in statements)
        assert sum(len(row) for _, rows in statements for row in rows) == columns * many


def test_a_server_gets_one_row_at_a_time() -> None:
    rows: list[Values] = [(number, None, None) for number in range(500)]
    ((text, values),) = POSTGRES.puts(TABLE, rows)
    assert text.count("%s") == 3
    assert values == rows
