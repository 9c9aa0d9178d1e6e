"""Says how far what is counted goes, with an answer and by itself."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from steptrail.infrastructure.views.database import Answer
from steptrail.projections.kernel.face import Face
from steptrail.projections.kernel.projection import Projection


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
    faces: Sequence[tuple[Face, Sequence[Projection[Any]]]],
    shown: Mapping[str, int],
    counted: Mapping[tuple[str, int], AsOf],
) -> AsOf:
    """Return up to where all is counted that the views of some faces show.

    `shown` are the versions of the faces that are shown, by name, and `counted` is how far each version of a projection
    has come. After a roll-back a newer version is shown than ours; an older one is as long as ours has not counted all.
    """

    def version(ours: Projection[Any], face: Face) -> int:
        versions = [each for name, each in counted if name == ours.name]
        is_newer, is_older = shown.get(face.name, 0) > face.version, shown.get(face.name, 0) < face.version
        others = [each for each in versions if is_newer or (is_older and each < ours.version)]
        return max(others, default=ours.version)

    names = [(each.name, version(each, face)) for face, projections in faces for each in projections]
    return min((counted.get(each, AsOf(0, 0)) for each in names), default=AsOf(0, 0))
