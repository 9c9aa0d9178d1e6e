"""From `FILE.py:NAME` or `package.module:NAME`, as on the command line, to the projections of a service."""

from collections.abc import Sequence
from typing import Any, cast

from steptrail.domain.errors import ConfigurationError
from steptrail.interfaces.python.modules import load_module, run_of_theirs
from steptrail.projections.kernel.projection import Projection

_FORMS = "FILE.py:NAME or package.module:NAME"


def load_projections(references: Sequence[str]) -> Sequence[Projection[Any]]:
    """Return the projections that are named: each a `Projection`, its class, or a function that returns one.

    Raises `ConfigurationError` that says what is wrong.
    """
    return [_loaded(each) for each in references]


def _loaded(reference: str) -> Projection[Any]:
    target, _, name = reference.rpartition(":")
    if not target or not name.isidentifier():
        raise ConfigurationError(f"{reference!r} names no projection: give {_FORMS}")
    module = load_module(target, _FORMS, file="file of a projection")
    if not hasattr(module, name):
        raise ConfigurationError(f"{target} has no {name!r}")
    found = getattr(module, name)
    made: object = run_of_theirs(found, reference) if callable(found) else found
    if isinstance(made, Projection):
        return cast("Projection[Any]", made)  # type: ignore[redundant-cast]  # pyright needs it
    raise ConfigurationError(f"{reference} is none: a projection, its class, or a function that returns one")
