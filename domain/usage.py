"""Billed tokens, in five disjoint kinds that add up to the total, and the models that they were billed for."""

from collections.abc import Iterable, Sequence

from steptrail.domain.base import Count, Value
from steptrail.domain.camel_case import camel


class Usage(Value, frozen=True, kw_only=True):
    """Token counts of one or more model calls.

    The kinds do not overlap: a driver whose provider reports cached tokens inside the input, or reasoning tokens
    inside the output, takes them out before it fills this in.
    """

    input: Count = 0
    output: Count = 0
    cache_write: Count = 0
    cache_read: Count = 0
    reasoning: Count = 0

    @property
    def total(self) -> int:
        """The tokens of all kinds together."""
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
        """Subtract kind by kind. No kind becomes negative."""
        return Usage(
            input=max(0, self.input - other.input),
            output=max(0, self.output - other.output),
            cache_write=max(0, self.cache_write - other.cache_write),
            cache_read=max(0, self.cache_read - other.cache_read),
            reasoning=max(0, self.reasoning - other.reasoning),
        )

    def to_dict(self) -> dict[str, int]:
        """Return the wire form: `input`, `output`, `cacheWrite`, `cacheRead`, `reasoning`."""
        return {camel(name): getattr(self, name) for name in Usage.__struct_fields__}


class ModelUsage(Value, frozen=True, kw_only=True):
    """The usage that was billed for the calls of one model.

    `asked_for` is the model that the request named. `answered_by` is the model that the reply named; None when it named
    none. `unmetered` counts the replies that did not state their usage.
    """

    asked_for: str
    answered_by: str | None = None
    usage: Usage
    unmetered: Count = 0

    @classmethod
    def of_reply(cls, asked_for: str, answered_by: str | None, usage: Usage) -> "ModelUsage":
        """Return the bill of one reply."""
        return cls(asked_for=asked_for, answered_by=answered_by, usage=usage, unmetered=0 if usage.total else 1)

    @property
    def model(self) -> tuple[str, str | None]:
        """The two names of the model. Calls that agree in both are billed together."""
        return self.asked_for, self.answered_by

    def __add__(self, other: "ModelUsage") -> "ModelUsage":
        """Add usage of the same model."""
        return self._with(self.usage + other.usage, self.unmetered + other.unmetered)

    def __sub__(self, other: "ModelUsage") -> "ModelUsage":
        """Subtract usage of the same model. No number becomes negative."""
        return self._with(self.usage - other.usage, max(0, self.unmetered - other.unmetered))

    def _with(self, usage: Usage, unmetered: int) -> "ModelUsage":
        return ModelUsage(asked_for=self.asked_for, answered_by=self.answered_by, usage=usage, unmetered=unmetered)


class BilledUsage(Usage, frozen=True, kw_only=True):
    """The bill of a session and of all sessions below it, by model as far as the models are known."""

    models: tuple[ModelUsage, ...] = ()

    @classmethod
    def of(cls, usage: Usage, models: Iterable[ModelUsage]) -> "BilledUsage":
        """Return the usage with the models that it was billed for."""
        return cls(
            input=usage.input,
            output=usage.output,
            cache_write=usage.cache_write,
            cache_read=usage.cache_read,
            reasoning=usage.reasoning,
            models=tuple(models),
        )

    def beyond(self, earlier: "BilledUsage") -> "BilledUsage":
        """Return the part of the bill that was added since `earlier`, an older bill of the same session."""
        known = {each.model: each for each in earlier.models}
        since = (each - known[each.model] if each.model in known else each for each in self.models)
        return BilledUsage.of(self - earlier, (each for each in since if each.usage.total or each.unmetered))

    def after(self, earlier: "BilledUsage | None") -> "BilledUsage":
        """Return this bill with an earlier one of something else added."""
        if earlier is None:
            return self
        return BilledUsage.of(earlier + self, billed_together(earlier.models, self.models))


def billed_together(bill: Sequence[ModelUsage], more: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Return the bill with `more` added. It has one entry for each model, in the order of their first calls."""
    together = list(bill)
    for each in more:
        for place, known in enumerate(together):
            if known.asked_for == each.asked_for and known.answered_by == each.answered_by:
                together[place] = known + each
                break
        else:
            together.append(each)
    return tuple(together)
