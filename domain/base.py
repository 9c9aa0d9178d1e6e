"""The base of every value that is stored: frozen, closed, and free of NaN."""

from pydantic import BaseModel, ConfigDict

__all__ = ["FrozenModel"]


class FrozenModel(BaseModel):
    """A value with no identity. Unknown fields are refused, so a misspelt one is never lost.

    Field defaults are part of the storage format: a field that holds its default is not written.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
