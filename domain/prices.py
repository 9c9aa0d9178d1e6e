"""The cost of tokens: a price table as data, and the bill that it makes of recorded usage.

Prices are US dollars per million tokens with at most six decimals, so one token costs a whole number of picodollars
(1e-12 dollars) and a bill is a sum of integers: exact, and the same in every replay.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from msgspec import Meta

from steptrail.domain.base import Count, Settings, Value, made
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instants import Datetime
from steptrail.domain.json_value import JsonValue
from steptrail.domain.usage import ModelUsage, Usage

_PER_TOKEN = 10**6
"""Picodollars a token for one dollar per million tokens."""

USD_PLACES = 12
_PRICE_PLACES = 6
_PRICE_DIGITS, _USD_DIGITS = 15, 40
"""So many digits before the point a price has at most, and an amount. Ten to the power of millions takes minutes."""

Usd = Decimal
"""US dollars, to the picodollar."""

Unpriced = Literal["fail_closed", "warn", "ignore"]
"""How a limit on cost treats usage without a price: forbid, name it in its vote, or ignore it."""


def usd_text(amount: Decimal) -> str:
    """Return the amount without an exponent, such as `0.0125`."""
    return f"{amount:f}"


def wrong_money(amount: Decimal, places: int, digits: int = _USD_DIGITS) -> str:
    """Return what is wrong with an amount of money that has at most so many decimals; an empty text for nothing."""
    if not amount.is_finite() or amount < 0:
        return "Expected an amount of money, 0 or more"
    if amount.adjusted() >= digits:
        return f"Expected an amount of money of at most {digits} digits before the point"
    exponent = amount.as_tuple().exponent
    return f"Expected no more than {places} decimals" if isinstance(exponent, int) and -exponent > places else ""


def usd_left(most: Decimal, used: Decimal) -> Decimal:
    """Return what is left of an amount, at least the smallest that there is: 0 would be no limit in some places."""
    return _dollars(max(1, _whole(most, 10**USD_PLACES) - _whole(used, 10**USD_PLACES)))


def next_microdollar(usd: Decimal) -> Decimal:
    """Return the smallest whole number of millionths of a dollar above the amount."""
    return _dollars(_whole(usd, 10**6) + 1, decimals=6)


def without_price(models: Iterable[object], replies: object, tokens: object) -> str:
    """Say what has no price: models, replies that do not state their usage, and tokens of no known model."""
    names = ", ".join(map(str, models))
    said = [f"no price for {names}"] if names else []
    said += [f"replies that do not say what they used: {replies}"] if replies else []
    said += [f"tokens of no known model: {tokens}"] if tokens else []
    return "; ".join(said)


class Cost(Value, frozen=True, kw_only=True):
    """The cost of model calls in US dollars, and their usage that has no price.

    `unpriced` names the models without a price in the table. `unmetered` counts the replies that did not state their
    usage. `unattributed` counts the tokens whose model is not known.
    """

    usd: Usd
    unpriced: tuple[str, ...] = ()
    unmetered: Count = 0
    unattributed: Count = 0

    def __post_init__(self) -> None:
        if why := wrong_money(self.usd, USD_PLACES):
            raise ValueError(f"usd: {why}")

    @property
    def is_complete(self) -> bool:
        """Whether all usage has a price. If not, `usd` is a lower bound of the cost."""
        return not (self.unpriced or self.unmetered or self.unattributed)

    @property
    def missing(self) -> str:
        """The usage that has no price, in words; an empty text where all has one."""
        return without_price(self.unpriced, self.unmetered, self.unattributed)

    def __str__(self) -> str:
        """Return a text such as `0.0125 USD`, or `at least 0.0125 USD`."""
        return f"{'' if self.is_complete else 'at least '}{usd_text(self.usd)} USD"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return `usd` (text, so that it stays exact), `unpricedModels`, `unmeteredReplies`, `unattributedTokens`."""
        return {
            "usd": usd_text(self.usd),
            "unpricedModels": list(self.unpriced),
            "unmeteredReplies": self.unmetered,
            "unattributedTokens": self.unattributed,
        }


class ModelPrice(Settings, frozen=True, kw_only=True):
    """US dollars per million tokens of each kind, with at most six decimals.

    A kind without a price of its own has the price of a more general kind: cached tokens, read or written, cost as much
    as input, and reasoning as much as output. Set `cache_write` if the provider charges more for it.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    reasoning: Decimal | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.__struct_fields__:
            price: Decimal | None = getattr(self, name)
            if price is not None and (why := wrong_money(price, _PRICE_PLACES, _PRICE_DIGITS)):
                self.refuse(name, why)

    @property
    def is_free(self) -> bool:
        """Whether no kind costs anything."""
        return not any((self.input, self.output, self.cache_read, self.cache_write, self.reasoning))

    def picodollars(self, usage: Usage) -> int:
        """Return the price of these tokens, in picodollars."""
        kinds = (
            (usage.input, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.input if self.cache_read is None else self.cache_read),
            (usage.cache_write, self.input if self.cache_write is None else self.cache_write),
            (usage.reasoning, self.output if self.reasoning is None else self.reasoning),
        )
        return sum(tokens * _whole(price, _PER_TOKEN) for tokens, price in kinds)


class PriceTable(Settings, frozen=True, kw_only=True):
    """Prices by model name. It is recorded with each execution that it is given to.

    A key is a name or a pattern (`*`, `?`, `[…]`, case counts). An exact name comes first, then the longest pattern.
    `version`, `source` and `date` (`YYYY-MM-DD`) say which prices these are.
    """

    version: str
    source: str | None = None
    date: Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")] | None = None
    models: dict[str, ModelPrice]

    @classmethod
    def of(
        cls,
        models: Mapping[str, Mapping[str, Decimal | float | str]],
        *,
        version: str,
        source: str | None = None,
        date: str | None = None,
    ) -> "PriceTable":
        """Return a table made of plain data. A float is read as the number that is printed for it.

        Raises `ConfigurationError` for a value that is no price, and for a day that there is not.
        """
        priced: dict[str, ModelPrice] = {}
        if not isinstance(models, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"price table {version!r}: models: Expected `object`, got `{type(models).__name__}`"
            )
        for name, prices in models.items():
            try:
                priced[name] = made(ModelPrice, prices)
            except ValueError as error:
                said = str(error).removeprefix("ModelPrice: ")
                place = f"models.{name}" + (": " if said.startswith("Expected") else ".")
                raise ConfigurationError(f"price table {version!r}: {place}{said}") from None
        table = cls(models=priced, version=version, source=source, date=date)
        if date is not None:
            # Not in the constructor: it reads the log too, and a table that was taken once stays readable.
            try:
                Datetime.fromisoformat(date)
            except ValueError:
                table.refuse("date", "Expected a day that there is")
        return table

    def price_of(self, *names: str | None) -> ModelPrice | None:
        """Return the price of the first of the names that has one."""
        return next((price for name in names if name is not None and (price := self._find(name)) is not None), None)

    def _find(self, name: str) -> ModelPrice | None:
        if name in self.models:
            return self.models[name]
        matching = [pattern for pattern in self.models if fnmatchcase(name, pattern)]
        return self.models[max(matching, key=len)] if matching else None

    def cost(self, calls: Iterable[ModelUsage], *, billed: Usage | None = None) -> Cost:
        """Return the cost of the calls. `billed` is the whole usage; a part of it that belongs to no call has no price.

        A call has the price of the model that answered, or else of the one that was asked for, because providers answer
        with the name of a version when an alias was asked for.
        """
        picodollars = unmetered = known = 0
        unpriced: dict[str, None] = {}
        for call in calls:
            known += call.usage.total
            price = self.price_of(call.answered_by, call.asked_for)
            if price is None:
                unpriced[call.answered_by or call.asked_for] = None
                continue
            picodollars += price.picodollars(call.usage)
            unmetered += 0 if price.is_free else call.unmetered
        unattributed = max(0, billed.total - known) if billed is not None else 0
        return Cost(usd=_dollars(picodollars), unpriced=tuple(unpriced), unmetered=unmetered, unattributed=unattributed)


def _whole(amount: Decimal, unit: int) -> int:
    # Decimal arithmetic is avoided, because the caller of the library can set its precision.
    numerator, denominator = amount.as_integer_ratio()
    return numerator * unit // denominator


def _dollars(units: int, *, decimals: int = 12) -> Decimal:
    whole, rest = divmod(units, 10**decimals)
    return Decimal(f"{whole}.{rest:0{decimals}}".rstrip("0").rstrip("."))
