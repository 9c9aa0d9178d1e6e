"""The type of a JSON value.

Type checkers see the recursive type of pydantic. At run time it is `Any`: msgspec has no recursive type for JSON, and
pydantic is not imported for an annotation.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["JsonValue"]

if TYPE_CHECKING:
    from pydantic import JsonValue
else:
    JsonValue = Any
