"""Describes the public face of read models: documented views over private tables, each column said once.

Tables may change with a version of a projection. The views keep their columns: new ones come at the end, and one that
is to go is announced in `deprecated` a minor version before.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from steptrail.projections.kernel.projection import Projection
from steptrail.projections.kernel.table import Column, ColumnKind, Table


class PublicKind(StrEnum):
    """The type of a public column. The last five are made of whole numbers of a smaller unit."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    SECONDS = "seconds"
    """From microseconds."""
    DOLLARS = "dollars"
    """From 10^-9 dollars."""
    NUMBER = "number"
    """From millionths."""
    INSTANT = "instant"
    """From microseconds of UTC: a timestamp with time zone, or, on SQLite, a text in ISO 8601."""
    DAY = "day"
    """From days since 1970-01-01: a date, or, on SQLite, a text."""


class PublicColumn(NamedTuple):
    """One column: the SQL expression that it is made of, and the version of Steptrail that it came with.

    `unit` is empty where the kind says it. `deprecated` says what to use instead; empty while the column stays.
    """

    name: str
    sql: str
    kind: PublicKind
    says: str
    since: str
    unit: str = ""
    deprecated: str = ""


class PublicView(NamedTuple):
    """One view: `source` is what stands behind FROM, with the names of private tables."""

    name: str
    says: str
    source: str
    columns: Sequence[PublicColumn]


class Face(NamedTuple):
    """All views of a set of read models, under a `name`. `version` grows with every change of them."""

    version: int
    views: Sequence[PublicView]
    name: str = "runs"

    def columns(self) -> Iterator[tuple[PublicView, PublicColumn]]:
        """Yield each column with its view."""
        for view in self.views:
            for column in view.columns:
                yield view, column


def face_of(projection: Projection[Any]) -> Face:
    """Return the face of a projection: each of its tables as it is."""
    views = [view_of(table, f"version {projection.version}") for table in projection.tables]
    return Face(projection.version, views, projection.name)


def view_of(table: Table, since: str) -> PublicView:
    """Return the view that shows a table as it is: with seconds, dollars, and instants that people can read.

    Its name is that of the table without the version. Each instant is there as a number too, `started_us` beside
    `started_at`.
    """
    columns = tuple(shown for column in table.columns for shown in _shown(column, since))
    return PublicView(re.sub(r"^v\d+_", "", table.name), table.says, table.name, columns)


def _shown(column: Column, since: str) -> Iterator[PublicColumn]:
    name, sql = column.name, f'"{column.name}"'
    says = column.says.rstrip(".")
    match column.unit:
        case "microseconds":
            yield PublicColumn(f"{name.removesuffix('_us')}_seconds", sql, PublicKind.SECONDS, says, since)
        case "10^-9 dollars":
            yield PublicColumn(f"{name.removesuffix('_nanos')}_usd", sql, PublicKind.DOLLARS, says, since)
        case "10^-6":
            yield PublicColumn(name.removesuffix("_millionths"), sql, PublicKind.NUMBER, says, since)
        case "days since 1970-01-01":
            yield PublicColumn(name, sql, PublicKind.DAY, says, since)
            began = f"{sql} * 86400000000"
            yield PublicColumn(f"{name}_us", began, PublicKind.INTEGER, "Its beginning", since, "microseconds of UTC")
        case "microseconds of UTC":
            yield PublicColumn(name, sql, PublicKind.INSTANT, says, since)
            as_number = f"{name.removesuffix('_at')}_us"
            yield PublicColumn(as_number, sql, PublicKind.INTEGER, says, since, "microseconds of UTC")
        case unit:
            yield PublicColumn(name, sql, _KINDS[column.kind], says, since, unit)


_KINDS = {
    ColumnKind.INTEGER: PublicKind.INTEGER,
    ColumnKind.TEXT: PublicKind.TEXT,
    ColumnKind.BOOLEAN: PublicKind.BOOLEAN,
}
