"""A table that could not be kept is refused where it is written down."""

from collections.abc import Mapping
from typing import Any

import pytest

from steptrail.projections.kernel.table import INSTANT, Column, ColumnKind, Table

RUN, DAY, NAME, KIND = (
    Column("run", ColumnKind.INTEGER, "The run."),
    Column("day", ColumnKind.INTEGER, "The day."),
    Column("name", ColumnKind.TEXT, "The name."),
    Column("kind", ColumnKind.TEXT, "The kind."),
)
AT = Column("at", ColumnKind.INTEGER, "When.", INSTANT)
MAYBE = AT._replace(is_optional=True)
OLD = Table(name="old", says="What grows old.", columns=(RUN, AT), key=("run",), aged_by="at")
PART = Table(name="part", says="A part.", columns=(RUN, AT), key=("run",), aged_by="at", belongs_to=OLD)
SUMS: Mapping[str, Any] = {"columns": (NAME, DAY, RUN), "key": ("name", "day"), "is_sums": True}
BY_KIND = {**SUMS, "columns": (KIND, NAME, DAY, RUN), "key": ("kind", "name", "day")}


def _sums(*columns: Column, totals: Table | None = None) -> Table:
    """Return a table of sums in which the last column is added up."""
    names = [column.name for column in columns]
    return Table(name="u", says="Sums.", columns=columns, key=names[:-1], is_sums=True, totals=totals)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"columns": (RUN, NAME), "key": ()}, "the key of t is not made of its first columns"),
        ({"columns": (RUN, NAME), "key": ("name",)}, "the key of t is not made of its first columns: name"),
        ({"columns": (RUN, DAY, DAY), "key": ("run",)}, "t has two columns of one name"),
        ({"columns": (RUN, NAME), "key": ("run",), "is_sums": True}, "t adds up what is no integer"),
        ({**SUMS, "totals": _sums(NAME, DAY, RUN)}, "u has no totals of t: it needs a part of the key, and the same"),
        ({**SUMS, "totals": _sums(NAME, DAY)}, "u has no totals of t"),
        ({**BY_KIND, "totals": _sums(NAME, DAY, RUN, totals=_sums(DAY, RUN))}, "u has no totals of t"),
        ({**SUMS, "is_sums": False, "totals": _sums(DAY, RUN)}, "u has no totals of t"),
        ({**SUMS, "totals": "u"}, "t: 'u' in `totals` is no `Table`"),
        ({"columns": (MAYBE, NAME), "key": ("at",)}, "the key of t is not there in each row: at"),
        ({"columns": (RUN, NAME), "key": ("run",), "of_stream": ["name"]}, r"t is of the stream in \['name'\]"),
        ({"columns": (NAME, RUN), "key": ("name",), "belongs_to": PART}, "t belongs to part, which belongs to old"),
    ],
)
def test_a_table_that_could_not_be_kept_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Table(name="t", says="Runs and what they did.", **given)


def test_sums_are_the_integers_behind_the_key() -> None:
    table = Table(name="t", says="Runs and what they did.", columns=(NAME, DAY, RUN), key=("name", "day"), is_sums=True)
    assert table.amounts == (RUN,)
