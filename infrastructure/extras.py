"""The packages of extras, imported by what needs them and not before."""

import importlib
from typing import Any

from steptrail.domain.errors import MissingExtra


def from_extra(module: str, extra: str, feature: str, package: str) -> Any:
    """Return a module of a package of an extra. Raises `MissingExtra`, which names the feature that needs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtra(feature, extra, package) from None
