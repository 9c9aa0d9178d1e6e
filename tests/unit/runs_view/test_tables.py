"""The tables of runs are well described."""

import re

import pytest

from steptrail.projections.kernel.table import ColumnKind, Table
from steptrail.projections.runs_view.sums import SUMS
from steptrail.projections.runs_view.tables import ROWS
from steptrail.projections.runs_view.view import RunsView

TABLES = (*ROWS, *SUMS)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_says_what_it_holds(table: Table) -> None:
    for column in table.columns:
        assert column.says.endswith("."), column.name


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_an_index_is_over_columns_of_its_table(table: Table) -> None:
    names = {column.name for column in table.columns}
    for index in table.indexes:
        words = re.findall(r"[a-z_]+", re.sub("'[^']*'", "", index.where))
        assert {*index.columns, *words} <= names, index


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_no_part_of_a_key_is_optional(table: Table) -> None:
    assert not [column.name for column in table.columns[: len(table.key)] if column.is_optional]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_whether_something_is_so_is_a_column_of_truth_values(table: Table) -> None:
    for column in table.columns:
        assert (column.kind is ColumnKind.BOOLEAN) == column.name.startswith(("is_", "should_", "answered")) or (
            column.name in {"answered_by", "retries"}
        ), column.name


def test_no_two_tables_have_one_name_and_all_are_of_this_version() -> None:
    names = [table.name for table in TABLES]
    assert len(set(names)) == len(names)
    assert all(name.startswith(f"v{RunsView.version}_") for name in names)
