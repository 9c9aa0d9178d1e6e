"""Says how far what is counted goes, with an answer and by itself."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from steptrail.infrastructure.views.database import Answer, Statements
from steptrail.projections.kernel.face import Face
from steptrail.projections.kernel.projection import Projection

_SHOWN = (
    "SELECT face, max(CASE WHEN generation IN (SELECT generation FROM projections) THEN version ELSE 0 END) "
    "FROM listed GROUP BY face"
)
"""The versions of the faces that are shown, 0 for one of another generation."""


class AsOf(NamedTuple):
    """Up to where read models are counted: a position of the log, and the instant of the event there.

    The instant is in microseconds of UTC; 0 while nothing is counted.
    """

    position: int
    at: int


class Found(NamedTuple):
    """The rows of an answer, and up to where all is counted in them."""

    rows: Answer
    as_of: AsOf


def shown_as_of(
    statements: Statements, face: Face, projections: Sequence[Projection[Any]], own: Sequence[Projection[Any]]
) -> AsOf:
    """Return up to where all is counted that the views of `face`, which are of `projections`, and of `own` ones show.

    After a roll-back a newer version is shown than ours; an older one is as long as ours has not counted all. The face
    of an own one has the version of its projection. What shows another generation is counted to no place of this one.
    """
    rows = statements.ask("SELECT name, version, position, at FROM projections WHERE version > 0")
    counted = {(name, version): AsOf(*place) for name, version, *place in rows}
    shown: dict[str, int] = dict(statements.ask(_SHOWN))
    there = shown.get(face.name, 0)

    def of(ours: Projection[Any]) -> AsOf:
        versions = {version: as_of for (name, version), as_of in counted.items() if name == ours.name}
        newer = [as_of for version, as_of in versions.items() if there > face.version and version > ours.version]
        older = [as_of for version, as_of in versions.items() if there < face.version and version < ours.version]
        return min(newer or older, default=versions.get(ours.version, AsOf(0, 0)))

    of_own = (counted.get((each.name, shown.get(each.name, each.version)), AsOf(0, 0)) for each in own)
    return min([*map(of, projections), *of_own], default=AsOf(0, 0))
