"""The SQL of public views, for SQLite and PostgreSQL, and the page that documents them."""

from collections.abc import Iterator, Mapping

from steptrail.infrastructure.views.ddl import Sql, quoted
from steptrail.projections.kernel.face import Face, PublicColumn, PublicKind

__all__ = ["COLUMNS_VIEW", "face_page", "selects"]

COLUMNS_VIEW = "view_columns"
"""The view that lists the columns of all others."""

_PLAIN = {PublicKind.TEXT: "{}", PublicKind.INTEGER: "{}", PublicKind.BOOLEAN: "{}"}
_SQLITE: Mapping[PublicKind, str] = {
    **_PLAIN,
    PublicKind.SECONDS: "({}) / 1000000.0",
    PublicKind.DOLLARS: "({}) / 1000000000.0",
    PublicKind.DAY: "date(({}) * 86400, 'unixepoch')",
    PublicKind.INSTANT: "strftime('%Y-%m-%dT%H:%M:%fZ', ({}) / 1000000.0, 'unixepoch')",
}
_POSTGRES: Mapping[PublicKind, str] = {
    **_PLAIN,
    PublicKind.SECONDS: "({})::double precision / 1000000",
    PublicKind.DOLLARS: "({})::double precision / 1000000000",
    PublicKind.DAY: "date '1970-01-01' + ({})::integer",
    PublicKind.INSTANT: "to_timestamp(({})::double precision / 1000000)",
}


def selects(sql: Sql, face: Face) -> Iterator[tuple[str, str]]:
    """Yield the name and the SELECT of each view, the one that lists all columns last."""
    forms = _POSTGRES if sql.has_comments else _SQLITE
    for view in face.views:
        columns = ", ".join(f"{forms[each.kind].format(each.sql)} AS {quoted(each.name)}" for each in view.columns)
        yield view.name, f"SELECT {columns} FROM {view.source}"  # noqa: S608 - texts of ours
    names = ("view", "column", "type", "unit", "since", "deprecated")
    rows = [
        f"({', '.join(_text(each) for each in (view.name, column.name, *_shown(column)))})"
        for view, column in face.columns()
    ]
    if rows:
        listed = ", ".join(map(quoted, names))
        yield COLUMNS_VIEW, f"WITH listed ({listed}) AS (VALUES {', '.join(rows)}) SELECT {listed} FROM listed"  # noqa: S608


def face_page(face: Face) -> str:
    """Return the part of the page of views that is made from their description: a table for each."""
    parts: list[str] = []
    for view in face.views:
        parts.append(f"## `{view.name}`\n\n{view.says[:1].upper()}{view.says[1:].rstrip('.')}.\n")
        lines = ["| column | type | what it holds | since |", "| --- | --- | --- | --- |"]
        for column in view.columns:
            kind, unit, since, deprecated = _shown(column)
            said = f"{column.says}, in {unit}" if column.unit else column.says
            said += f"; goes away: {deprecated}" if deprecated else ""
            lines.append(f"| `{column.name}` | {kind} | {said.replace('|', chr(92) + '|')} | {since} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _shown(column: PublicColumn) -> tuple[str, str, str, str]:
    units = {PublicKind.SECONDS: "seconds", PublicKind.DOLLARS: "dollars"}
    return column.kind.value, column.unit or units.get(column.kind, ""), column.since, column.deprecated


def _text(said: str) -> str:
    return "'" + said.replace("'", "''") + "'"
