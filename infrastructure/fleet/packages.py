"""The packages of the extra `fleet`, imported by what needs them and not before."""

import importlib
from functools import cache
from typing import Any

from steptrail.domain.errors import MissingExtra


@cache
def from_fleet(module: str) -> Any:
    """Return a module of a package of the extra. Raises `MissingExtra` where it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra("the engine procrastinate", "fleet", "procrastinate") from error
