"""A table that could not be kept is refused where it is written down."""

from typing import Any

import pytest

from steptrail.projections.kernel.table import Column, ColumnKind, Table

RUN, DAY, NAME = (
    Column("run", ColumnKind.INTEGER, "The run."),
    Column("day", ColumnKind.INTEGER, "The day."),
    Column("name", ColumnKind.TEXT, "The name."),
)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"columns": (RUN, NAME), "key": ()}, "the key of t is not made of its first columns"),
        ({"columns": (RUN, NAME), "key": ("name",)}, "the key of t is not made of its first columns: name"),
        ({"columns": (RUN, DAY, DAY), "key": ("run",)}, "t has two columns of one name"),
        ({"columns": (RUN, NAME), "key": ("run",), "is_sums": True}, "t adds up what is no integer"),
    ],
)
def test_a_table_that_could_not_be_kept_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Table(name="t", says="Runs and what they did.", **given)


def test_sums_are_the_integers_behind_the_key() -> None:
    table = Table(name="t", says="Runs and what they did.", columns=(NAME, DAY, RUN), key=("name", "day"), is_sums=True)
    assert table.amounts == (RUN,)
