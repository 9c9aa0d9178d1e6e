"""How a projection failed, as it is kept beside its rows, where all who may read these see it.

There are the places in the code, and the message without its values, as in all that the read models say of errors; our
own about rows that do not fit have none. The whole is in the log of the process that runs the projection.
"""

import traceback
from collections.abc import Iterator
from itertools import islice

from steptrail.domain.exception_words import words_of
from steptrail.infrastructure.views.database import Unfit
from steptrail.projections.runs_view.signature import template_of

_LONGEST = 4_000
_MOST = 5
"""How many exceptions of a chain are kept."""


def kept_failure(error: BaseException) -> str:
    """Return the frames, the class and the message of an exception and of its causes, without values; its own last."""
    said = [f"{_places(each)}{_named(each)}\n" for each in islice(_chain(error), _MOST)]
    return "\n".join(reversed(said))[-_LONGEST:]


def _chain(error: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _places(error: BaseException) -> str:
    """Return where an exception was raised, without the lines of the source."""
    frames = traceback.walk_tb(error.__traceback__)
    places = ((frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in frames)
    return "".join(f'  File "{file}", line {line}, in {name}\n' for file, line, name in places)


def _named(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    words = words_of(error)
    return f"{name}: {words if isinstance(error, Unfit) else template_of(words)}".strip(": ")
