"""The place in a list of runs that the next page comes after, as a text that says nothing to people."""

import re
from typing import NamedTuple

from steptrail.domain.errors import ConfigurationError
from steptrail.projections.asking.filters import RunOrder

_TEXT = re.compile(r"([a-z_]{1,20})\.(-?[0-9a-f]{1,16})\.([0-9a-f]{1,16})", re.ASCII)


class Cursor(NamedTuple):
    """A row of a list: its order, its value there, and its execution."""

    order: RunOrder
    value: int
    execution: int

    def to_text(self) -> str:
        """Return the cursor as text, which fits an address."""
        return f"{self.order.value}.{self.value:x}.{self.execution:x}"

    @classmethod
    def of(cls, text: str, order: RunOrder) -> "Cursor":
        """Return the cursor of a text. Raises `ConfigurationError` for one that is not of a list in this order."""
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
        if found is None or found[1] != order.value:
            raise ConfigurationError(f"{text!r} is no place in a list of runs in the order {order.value!r}")
        value, execution = int(found[2], 16), int(found[3], 16)
        if max(abs(value), execution) >= 2**63:
            raise ConfigurationError(f"{text!r} is no place in a list of runs")
        return cls(order, value, execution)
