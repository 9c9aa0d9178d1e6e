"""Checks the projections of a service before anything is made for them: names that stand for themselves everywhere."""

import re
from collections.abc import Collection, Sequence
from typing import Any, get_args

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.kernel.given import a_plain_function
from steptrail.infrastructure.views.generation import BOOKS
from steptrail.infrastructure.views.public import COLUMNS_VIEW
from steptrail.projections.kernel.face import Face, PublicKind, face_of, view_of
from steptrail.projections.kernel.projection import OnError, Projection
from steptrail.projections.kernel.table import ColumnKind, Table
from steptrail.runtime.kernel.kinds import KINDS, types_of_events

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""Plain in every database, and short enough for what is made of it."""
_RESERVED = re.compile(r"sqlite_|pg_|v[0-9]+_")
"""How the own tables of databases begin, and the tables that stand behind the views."""
_METHODS = {"begin": ("stream",), "apply": ("fold", "entry", "changes"), "end_batch": ("fold", "changes")}
_SUCH_AS = {"prefixes": "agent:", "types": "ToolExecutionCompleted.TYPE"}
_OF_NUMBERS = {PublicKind.SECONDS, PublicKind.DOLLARS, PublicKind.NUMBER, PublicKind.INSTANT, PublicKind.DAY}


def checked(
    given: Sequence[Projection[Any]], beside: Collection[Projection[Any]], face: Face
) -> Sequence[Projection[Any]]:
    """Return the projections of a service. Those `beside` them, and their face, have names already.

    Raises `ConfigurationError` for a name that is no plain word or is taken, for a table that does not say which
    projection and version it is of, for what is no projection, and for one that would see no event or count none.
    """
    names = {each.name for each in beside}
    views = {COLUMNS_VIEW, "series", *(table.name for table in BOOKS), *(view.name for view in face.views)}
    for each in given:
        if not isinstance(each, Projection):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"{each!r} is no projection: derive its class from `Projection`, and give an object"
            )
        _check(each)
        if each.name in names:
            raise ConfigurationError(f"there are two projections {each.name!r}: give one of them another name")
        names.add(each.name)
        for view in face_of(each).views:
            if view.name in views:
                raise ConfigurationError(f"the view {view.name!r} of the projection {each.name!r} is there already")
            views.add(view.name)
    return tuple(given)


def _check(projection: Projection[Any]) -> None:
    who = f"the projection {getattr(projection, 'name', None)!r} of {type(projection).__name__}"
    for attribute in ("name", "tables"):
        if not hasattr(projection, attribute):
            raise ConfigurationError(f"{type(projection).__name__} has no `{attribute}`: set it in the class")
    if not isinstance(projection.name, str) or not _NAME.fullmatch(projection.name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{who}: a name has a to z, 0 to 9 and _, and at most 40 characters")
    if reserved := _RESERVED.match(projection.name):
        raise ConfigurationError(f"{who}: a name does not begin with {reserved[0]}, which databases and tables have")
    if type(projection.version) is not int or projection.version < 1:
        raise ConfigurationError(f"{who}: `version` is a whole number from 1, not {projection.version!r}")
    if projection.on_error not in get_args(OnError):
        raise ConfigurationError(f"{who}: `on_error` is one of {', '.join(get_args(OnError))}")
    for setting in ("prefixes", "types"):
        if isinstance(getattr(projection, setting), str):
            raise ConfigurationError(f"{who}: `{setting}` are several texts, not one")
        if wrong := [each for each in getattr(projection, setting) or () if not isinstance(each, str)]:
            raise ConfigurationError(f"{who}: `{setting}` are texts, such as `{_SUCH_AS[setting]}`, not {wrong[0]!r}")
    types_of_events(projection.types, f"{who}: `types`")
    for prefix in projection.prefixes:
        if not any(prefix.startswith(kind) or kind.startswith(prefix) for kind in KINDS):
            raise ConfigurationError(f"{who}: no stream begins with {prefix!r}: `prefixes` are such as `agent:`")
    for method, arguments in _METHODS.items():
        a_plain_function(getattr(projection, method), f"{who}: `{method}`", *arguments)
    if not isinstance(projection.tables, list | tuple):
        raise ConfigurationError(f"{who}: `tables` is a tuple of `Table`, not {projection.tables!r}")
    for table in projection.tables:
        if not isinstance(table, Table):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{who}: {table!r} in `tables` is no `Table`")
        _check_table(who, projection, table)


def _check_table(who: str, projection: Projection[Any], table: Table) -> None:
    texts = [table.name, table.says, *(text for each in table.columns for text in (each.name, each.says, each.unit))]
    if wrong := [text for text in texts if not isinstance(text, str)]:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{who}: names, units and what `says` of {table.name!r} are texts, not {wrong[0]!r}")
    own = f"v{projection.version}_{projection.name}"
    if table.name != own and not table.name.startswith(f"{own}_"):
        raise ConfigurationError(f"{who}: its table {table.name!r} is named {own}, or {own}_something")
    words = [table.name, *(column.name for column in table.columns)]
    if wrong := [word for word in words if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", word)]:
        raise ConfigurationError(f"{who}: {wrong[0]!r} in {table.name} has other characters than a to z, 0 to 9 and _")
    for column in table.columns:
        if column.kind not in list(ColumnKind):
            raise ConfigurationError(f"{who}: the kind of {column.name} in {table.name} is one of `ColumnKind`")
    shown = view_of(table, "").columns
    kinds = {f'"{column.name}"': column.kind for column in table.columns}
    if wrong := [each.sql for each in shown if each.kind in _OF_NUMBERS and kinds[each.sql] != ColumnKind.INTEGER]:
        raise ConfigurationError(f"{who}: {wrong[0]} in {table.name} has the unit of a number and is no integer")
    names = [each.name for each in shown]
    if wrong := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(f"{who}: the view of {table.name} would have two columns {wrong[0]!r}: rename one")
    if table.belongs_to is not None and table.belongs_to not in projection.tables:
        raise ConfigurationError(f"{who}: {table.name} belongs to {table.belongs_to.name}, which is no table of it")
    columns = {column.name for column in table.columns}
    if wrong := [name for index in table.indexes for name in index.columns if name not in columns]:
        raise ConfigurationError(f"{who}: an index of {table.name} is over {wrong[0]!r}, which is no column of it")
