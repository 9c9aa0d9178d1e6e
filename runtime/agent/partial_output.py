"""Reads an answer in a type while the model writes it. Nothing of it is validated: it is for screens only."""

from collections.abc import Callable
from typing import Final

from steptrail.domain.json_value import JsonValue
from steptrail.domain.output import OutputSpec

_LEAST_SECONDS: Final = 0.1
"""The time between two readings, because each reads the whole text again."""


class PartialOutput:
    """One answer that is being written. `now` returns a time in seconds; `show` is called with each new value."""

    def __init__(self, output: OutputSpec, now: Callable[[], float], show: Callable[[JsonValue], None]) -> None:
        self._output, self._now, self._show = output, now, show
        self._pieces, self._next = list[str](), 0.0
        self._shown: JsonValue = None

    def add(self, text: str) -> None:
        """Take the next piece of the reply, and show what can be read by now, at most ten times a second."""
        self._pieces.append(text)
        if self._now() >= self._next:
            self._next = self._now() + _LEAST_SECONDS
            self.read()

    def read(self) -> None:
        """Show what can be read by now, if that is more than before."""
        from pydantic_core import from_json

        text = "".join(self._pieces).strip()
        if text.startswith("```"):
            text = text.partition("\n")[2].removesuffix("```")
        try:
            value = self._output.unwrapped(from_json(text, allow_partial="trailing-strings"))
        except (ValueError, KeyError):
            return
        if value is not None and value != self._shown:
            self._shown = value
            self._show(value)
