"""The SQL of public views, for SQLite and PostgreSQL, and the list of their columns."""

from collections.abc import Iterator, Mapping

from steptrail.infrastructure.views.ddl import Sql, Values, quoted
from steptrail.projections.kernel.face import Face, PublicColumn, PublicKind
from steptrail.projections.kernel.table import Column, ColumnKind, Table

LISTED = Table(
    name="listed",
    says="the columns of public views, and the faces that these belong to",
    columns=(
        Column("view", ColumnKind.TEXT, "the view"),
        Column("number", ColumnKind.INTEGER, "the number of the column in it, from 1"),
        Column("column", ColumnKind.TEXT, "the column"),
        Column("type", ColumnKind.TEXT, "its type"),
        Column("unit", ColumnKind.TEXT, "its unit; empty for none"),
        Column("since", ColumnKind.TEXT, "the version that it came with"),
        Column("deprecated", ColumnKind.TEXT, "what to use instead; empty while it stays"),
        Column("face", ColumnKind.TEXT, "the name of the face"),
        Column("version", ColumnKind.INTEGER, "the version of the face"),
        Column("generation", ColumnKind.INTEGER, "the generation that the view shows"),
    ),
    key=("view", "number"),
)
COLUMNS_VIEW = "view_columns"
"""The view that lists the columns of all views."""

_PLAIN = {PublicKind.TEXT: "{}", PublicKind.INTEGER: "{}", PublicKind.BOOLEAN: "{}"}
_SQLITE: Mapping[PublicKind, str] = {
    **_PLAIN,
    PublicKind.SECONDS: "({}) / 1000000.0",
    PublicKind.DOLLARS: "({}) / 1000000000.0",
    PublicKind.NUMBER: "({}) / 1000000.0",
    PublicKind.DAY: "date(({}) * 86400, 'unixepoch')",
    # By whole seconds: SQLite rounds parts of one to milliseconds, and so into the next day. They are counted from the
    # year 1, because it divides towards zero.
    PublicKind.INSTANT: (
        "(strftime('%Y-%m-%dT%H:%M:%S', (({0}) + 62135596800000000) / 1000000 - 62135596800, 'unixepoch') || "
        "printf('.%06dZ', (({0}) + 62135596800000000) % 1000000))"
    ),
}
_POSTGRES: Mapping[PublicKind, str] = {
    **_PLAIN,
    PublicKind.SECONDS: "({})::double precision / 1000000",
    PublicKind.DOLLARS: "({})::double precision / 1000000000",
    PublicKind.NUMBER: "({})::double precision / 1000000",
    # Beyond these years neither the server nor Python has a day, and one row would have every question refused.
    PublicKind.DAY: "CASE WHEN ({0}) BETWEEN -719161 AND 2932895 THEN date '1970-01-01' + ({0})::integer END",
    PublicKind.INSTANT: (
        "CASE WHEN ({0}) BETWEEN -62135510400000000 AND 253402214399999999 "
        "THEN to_timestamp(({0})::double precision / 1000000) END"
    ),
}


def selects(sql: Sql, face: Face, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the SELECT of each view, and of the one that lists the columns of all."""
    forms = _POSTGRES if sql.has_comments else _SQLITE
    for view in face.views:
        columns = ", ".join(f"{forms[each.kind].format(each.sql)} AS {quoted(each.name)}" for each in view.columns)
        yield view.name, f"SELECT {columns} FROM {view.source}"  # noqa: S608 - texts of ours
    columns = ", ".join(map(quoted, ("view", "column", "type", "unit", "since", "deprecated")))
    yield COLUMNS_VIEW, f"SELECT {columns} FROM {place}listed ORDER BY view, number"  # noqa: S608 - names of ours


def listed(face: Face, generation: int) -> Iterator[Values]:
    """Yield the rows of `LISTED` for a face."""
    for view in face.views:
        for number, column in enumerate(view.columns, 1):
            yield (view.name, number, column.name, *_shown(column), face.name, face.version, generation)


def _shown(column: PublicColumn) -> tuple[str, str, str, str]:
    units = {PublicKind.SECONDS: "seconds", PublicKind.DOLLARS: "dollars"}
    return column.kind.value, column.unit or units.get(column.kind, ""), column.since, column.deprecated
