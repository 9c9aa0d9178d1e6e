"""The context that an agent declares: the type of what is said of each run, which is recorded and read back."""

from typing import TYPE_CHECKING, Any, Generic

from steptrail.domain.agent.config import ContextSpec
from steptrail.domain.errors import ConfigurationError, NotStorable, StoredContextInvalid
from steptrail.domain.json_value import JsonValue
from steptrail.runtime.agent.type_variables import ContextT

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class DeclaredContext(Generic[ContextT]):
    """The type of a context. Raises `ConfigurationError` for one that cannot be stored, and for one with a secret."""

    def __init__(self, kind: "type[ContextT] | TypeAdapter[ContextT]") -> None:
        from steptrail.runtime.agent.stored_types import StoredType

        self.kind: object = getattr(kind, "_type", kind)  # of an adapter, its type
        self._type: StoredType[ContextT] = StoredType(kind, "context")
        self.spec = ContextSpec(type_name=self._type.name, json_schema=self._type.schema)

    def stored(self, given: object) -> JsonValue:
        """Return the JSON of what a caller says of a run. Raises `ConfigurationError` that names the wrong fields."""
        try:
            return self._type.stored(self._type.checked(given))
        except (NotStorable, ConfigurationError) as error:
            raise ConfigurationError(f"the context cannot be stored: {error}") from None
        except Exception as error:  # the type brings code of its own
            why = self._type.why_not(error)
            raise ConfigurationError(f"the context does not fit {self._type.name}: {why}") from None

    def read(self, stored: JsonValue, *, is_open: bool = True) -> ContextT:
        """Return a recorded context as a new value. Raises `StoredContextInvalid`.

        Raises `ConfigurationError` when nothing is recorded, the type needs something, and the run `is_open` not yet.
        """
        try:
            return self._type.of(stored)
        except Exception as error:  # as above
            why = "nothing was said of this run" if stored is None else self._type.why_not(error)
            if stored is None and not is_open:
                raise ConfigurationError(f"{why}: give a {self._type.name} as `context`") from None
            raise StoredContextInvalid(self._type.name, why, is_open=is_open) from error

    def is_same_as(self, other: "DeclaredContext[Any] | None") -> bool:
        """Tell whether both are of one type."""
        return other is not None and (self.kind is other.kind or self.kind == other.kind)
