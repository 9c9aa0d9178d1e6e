"""The base of every value that is stored: frozen, closed, free of NaN, and not nested deeper than can be read."""

from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json

__all__ = ["FrozenModel", "check_nesting"]

_SURELY_READ = 150
"""Levels of nesting that can be read; some fifty more can, too."""


class FrozenModel(BaseModel):
    """A value with no identity. Unknown fields are refused, so a misspelt one is never lost.

    Field defaults are part of the storage format: a field that holds its default is not written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def check_nesting(written: bytes) -> None:
    """Raise `ValueError` for JSON that is nested so deep that it could not be read again."""
    # Brackets are quickly counted, and few of them cannot be nested too deep.
    if written.count(b"[") + written.count(b"{") > _SURELY_READ:
        try:
            from_json(written)
        except ValueError:
            msg = "it is nested so deep that it could be written and not be read again"
            raise ValueError(msg) from None
