"""The base of every value that is stored: frozen, closed, and free of NaN."""

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from steptrail.domain.errors import InvalidSetting

__all__ = ["LARGEST", "FrozenModel", "Settings"]

LARGEST = 2**63 - 1
"""The largest number that a setting may hold: every reader of JSON can hold it too."""

_LONGEST = 100


class FrozenModel(BaseModel):
    """A value with no identity. Unknown fields are refused, so a misspelt one is never lost.

    Field defaults are part of the storage format: a field that holds its default is not written.
    """

    CONTENT: ClassVar[frozenset[str]] = frozenset()
    """The fields that hold content; see `domain/content.py`."""
    STATE: ClassVar[frozenset[str]] = frozenset()
    """The fields that hold state, although their type does not say so."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Settings(FrozenModel):
    """A value that people write down. What cannot be is a `ConfigurationError` of one line that names the field."""

    if not TYPE_CHECKING:  # the fields are what a type checker is to see

        def __init__(self, /, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                problem = error.errors()[0]
                field = ".".join(str(part) for part in problem["loc"])
                said = f"{field}: {problem['msg']}, not {_short(problem['input'])}"
                raise InvalidSetting(f"{type(self).__name__}: {said}") from None


def _short(value: object) -> str:
    try:
        said = repr(value)
    except Exception:
        said = f"a {type(value).__name__}"
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…"
