"""Describes the public face of read models: documented views over private tables, each column said once.

Tables may change with a version of a projection. The views keep their columns: new ones come at the end, and one that
is to go is announced in `deprecated` a minor version before.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Face", "PublicColumn", "PublicKind", "PublicView"]


class PublicKind(StrEnum):
    """The type of a public column. The last three are made of whole numbers of a smaller unit."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    SECONDS = "seconds"
    """From microseconds."""
    DOLLARS = "dollars"
    """From 10^-9 dollars."""
    INSTANT = "instant"
    """From microseconds of UTC: a timestamp with time zone, or, on SQLite, a text in ISO 8601."""


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
    """All views of a set of read models. `version` grows with every change of them."""

    version: int
    views: Sequence[PublicView]

    def columns(self) -> Iterator[tuple[PublicView, PublicColumn]]:
        """Yield each column with its view."""
        for view in self.views:
            for column in view.columns:
                yield view, column
