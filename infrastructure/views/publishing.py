"""Keeps the list of the columns of public views, by which each face knows the views that are its own."""

from collections.abc import Sequence

from steptrail.domain.errors import ConfigurationError
from steptrail.infrastructure.views.database import Statements
from steptrail.infrastructure.views.ddl import Sql
from steptrail.infrastructure.views.public import LISTED, listed
from steptrail.projections.kernel.face import Face


def relisted(statements: Statements, sql: Sql, face: Face, generation: int, prefix: str = "") -> Sequence[str]:
    """List the columns of a face in place of those that it had, and return the views that it has no more.

    Raises `ConfigurationError` for a view that another face has.
    """
    known = statements.ask(f"SELECT DISTINCT view, face FROM {prefix}listed")  # noqa: S608 - names of ours
    names = {view.name for view in face.views}
    for view, owner in known:
        if view in names and owner != face.name:
            raise ConfigurationError(f"the view {view} is one of {owner}: {face.name} needs other names of tables")
    statements.change(f"DELETE FROM {prefix}listed WHERE face = $1", face.name)  # noqa: S608
    for text, rows in sql.puts(LISTED, [*listed(face, generation)], prefix):
        statements.change_all(text, rows)
    return sorted(view for view, owner in known if owner == face.name and view not in names)
