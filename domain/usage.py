"""Tokens as billed, in five disjoint kinds that add up to the total, and which model they were billed for."""

from dataclasses import dataclass

from pydantic import Field

from steptrail.domain.base import FrozenModel

__all__ = ["ModelUsage", "Usage"]


class Usage(FrozenModel):
    """Token counts of one or more model calls.

    The kinds do not overlap: a driver whose provider reports cached tokens inside the input, or reasoning tokens
    inside the output, takes them out before it fills this in.
    """

    input: int = Field(default=0, ge=0)
    output: int = Field(default=0, ge=0)
    cache_write: int = Field(default=0, ge=0)
    cache_read: int = Field(default=0, ge=0)
    reasoning: int = Field(default=0, ge=0)

    @property
    def total(self) -> int:
        """All tokens of all kinds."""
        return self.input + self.output + self.cache_write + self.cache_read + self.reasoning

    @property
    def all_input(self) -> int:
        """Tokens that were sent, cached ones included."""
        return self.input + self.cache_read + self.cache_write

    @property
    def all_output(self) -> int:
        """Tokens that were written, reasoning included."""
        return self.output + self.reasoning

    def __add__(self, other: "Usage") -> "Usage":
        """Sum kind by kind."""
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_write=self.cache_write + other.cache_write,
            cache_read=self.cache_read + other.cache_read,
            reasoning=self.reasoning + other.reasoning,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        """Take away kind by kind, and of none more than there is."""
        return Usage(
            input=max(0, self.input - other.input),
            output=max(0, self.output - other.output),
            cache_write=max(0, self.cache_write - other.cache_write),
            cache_read=max(0, self.cache_read - other.cache_read),
            reasoning=max(0, self.reasoning - other.reasoning),
        )

    def to_dict(self) -> dict[str, int]:
        """Return the wire form: `input`, `output`, `cacheWrite`, `cacheRead`, `reasoning`."""
        return {
            "input": self.input,
            "output": self.output,
            "cacheWrite": self.cache_write,
            "cacheRead": self.cache_read,
            "reasoning": self.reasoning,
        }


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What the calls of one model were billed.

    `asked_for` is the model that was named to the provider, `answered_by` the one that the provider named, if it did.
    `unmetered` counts the replies that did not say what they used.
    """

    asked_for: str
    answered_by: str | None
    usage: Usage
    unmetered: int = 0

    def is_of(self, asked_for: str, answered_by: str | None) -> bool:
        """Tell whether a call belongs here."""
        return (self.asked_for, self.answered_by) == (asked_for, answered_by)

    def plus(self, usage: Usage) -> "ModelUsage":
        """Return it with one more reply."""
        return ModelUsage(
            self.asked_for, self.answered_by, self.usage + usage, self.unmetered + (0 if usage.total else 1)
        )
