"""Says how far what is counted goes, with an answer and by itself."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from steptrail.infrastructure.views.database import Answer, Statements
from steptrail.projections.kernel.face import Face
from steptrail.projections.kernel.projection import Projection

_SHOWN = (
    "SELECT DISTINCT view, face, CASE WHEN generation IN (SELECT generation FROM projections) THEN version ELSE 0 END "
    "FROM listed"
)
"""The views with their faces, and the versions of these that are shown, 0 for one of another generation."""


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
    statements: Statements,
    text: str,
    face: Face,
    projections: Sequence[Projection[Any]],
    own: Sequence[Projection[Any]],
) -> AsOf:
    """Return up to where all is counted that the views of `face`, which are of `projections`, and of `own` ones show.

    With them go the projections of others that a question with this text may be about: it names one of their views.
    After a roll-back a newer version is shown than ours; an older one is as long as ours has not counted all. The face
    of an own one has the version of its projection. What shows another generation is counted to no place of this one.
    """
    rows = statements.ask("SELECT name, version, position, at FROM projections WHERE version > 0")
    counted = {(name, version): AsOf(*place) for name, version, *place in rows}
    listed = statements.ask(_SHOWN)
    shown: dict[str, int] = {name: version for _, name, version in listed}
    words = set(re.findall(r"\w+", text.lower()))
    beside = {name: 0 for view, name, _ in listed if view in words and name != face.name}
    beside |= {each.name: each.version for each in own}
    there = shown.get(face.name, 0)

    def of(ours: Projection[Any]) -> AsOf:
        versions = {version: as_of for (name, version), as_of in counted.items() if name == ours.name}
        newer = [as_of for version, as_of in versions.items() if there > face.version and version > ours.version]
        older = [as_of for version, as_of in versions.items() if there < face.version and version < ours.version]
        return min(newer or older, default=versions.get(ours.version, AsOf(0, 0)))

    found = (counted.get((name, shown.get(name, version)), AsOf(0, 0)) for name, version in beside.items())
    return min([*map(of, projections), *found], default=AsOf(0, 0))
