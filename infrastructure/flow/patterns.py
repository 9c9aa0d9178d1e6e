"""Regular expressions of workflows, by an engine whose time grows with the length of the text alone.

Python's own takes for ever with `(a+)+$` over some dozens of letters, and a definition may come from a form. pydantic
brings the engine, and bounds how large an expression may become. It knows no look-around and no back-references.
"""

from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from steptrail.domain.flow.kinds.port import NodeFault
from steptrail.domain.flow.policies import FailureClass

_LONGEST: Final = 1_000
_SHOWN: Final = 100


class LinearPatterns:
    """Searches texts. Implements the port `Patterns`."""

    def fits(self, pattern: object, text: str) -> bool:
        """Tell whether an expression finds something in a text. Raises `NodeFault` of the class `config`."""
        if not isinstance(pattern, str) or len(pattern) > _LONGEST:
            raise NodeFault(FailureClass.CONFIG, f"a pattern is a text of at most {_LONGEST:,} characters")
        return _searching(pattern).isinstance_python(text)


@lru_cache(maxsize=256)
def _searching(pattern: str) -> SchemaValidator:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        why = str(error).strip().rsplit("\n", 1)[-1].strip().removeprefix("SchemaError: ").removeprefix("error: ")
        shown = pattern if len(pattern) <= _SHOWN else f"{pattern[:_SHOWN]}…"
        raise NodeFault(FailureClass.CONFIG, f"{shown!r} is no pattern: {why}") from None
