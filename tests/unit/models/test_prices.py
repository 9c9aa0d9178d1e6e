"""Money is exact: whole picodollars, whatever the sums, the order and the caller's decimal settings."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, strategies as st

from steptrail import AgentBuilder
from steptrail.domain.prices import next_microdollar, usd_text
from steptrail.errors import ConfigurationError
from steptrail.models import Cost, ModelPrice, ModelUsage, PriceTable, Usage
from steptrail.testing import ScriptedModel, say

SMALL = msgspec.convert({"input": "0.25", "output": "2", "cache_read": "0.025", "cache_write": "0.3125"}, ModelPrice)
TABLE = PriceTable.of(
    {
        "acme-small": {"input": "0.25", "output": 2},
        "acme-small-*": {"input": "0.5", "output": 4},
        "acme-*": {"input": 3, "output": 15},
        "here": {"input": 0, "output": 0},
    },
    version="2026-11",
    source="acme's page",
    date="2026-11-02",
)

counts = st.integers(0, 10**9)
usages = st.builds(Usage, input=counts, output=counts, cache_read=counts, cache_write=counts, reasoning=counts)
per_million = st.integers(0, 10**9).map(lambda micros: Decimal(micros).scaleb(-6))
prices = st.builds(ModelPrice, input=per_million, output=per_million, cache_read=per_million | st.none())
names = st.sampled_from(["a", "b", "c"])
calls = st.lists(st.builds(ModelUsage, asked_for=names, answered_by=names | st.none(), usage=usages), max_size=6)


def used(tokens: int, model: str = "acme-small", answered_by: str | None = None) -> ModelUsage:
    return ModelUsage(asked_for=model, answered_by=answered_by, usage=Usage(input=tokens))


def test_each_kind_of_token_has_its_price() -> None:
    usage = Usage(input=1, output=1, cache_read=1, cache_write=1, reasoning=1)
    assert SMALL.picodollars(usage) == 250_000 + 2_000_000 + 25_000 + 312_500 + 2_000_000


def test_a_kind_without_a_price_costs_what_it_is_a_kind_of() -> None:
    plain = msgspec.convert({"input": "3", "output": "15"}, ModelPrice)
    assert plain.picodollars(Usage(cache_read=1, cache_write=1)) == plain.picodollars(Usage(input=2))
    assert plain.picodollars(Usage(reasoning=1)) == plain.picodollars(Usage(output=1))


@given(prices, usages)
def test_a_bill_is_the_exact_sum_of_its_fractions(price: ModelPrice, usage: Usage) -> None:
    read = price.input if price.cache_read is None else price.cache_read
    exact = (
        Fraction(price.input) * (usage.input + usage.cache_write)
        + Fraction(price.output) * (usage.output + usage.reasoning)
        + Fraction(read) * usage.cache_read
    ) / 10**6
    cost = PriceTable(version="1", models={"a": price}).cost([ModelUsage(asked_for="a", answered_by=None, usage=usage)])
    assert Fraction(cost.usd) == exact


@given(st.dictionaries(names, prices), calls, st.data())
def test_neither_the_order_of_the_calls_nor_how_they_are_split_changes_the_bill(
    models: dict[str, ModelPrice], bill: Sequence[ModelUsage], data: st.DataObject
) -> None:
    table = PriceTable(version="1", models=models)
    whole = table.cost(bill)
    shuffled = table.cost(data.draw(st.permutations(bill)))
    assert (shuffled.usd, set(shuffled.unpriced)) == (whole.usd, set(whole.unpriced))
    cut = data.draw(st.integers(0, len(bill)))
    parts = [Fraction(table.cost(part).usd) for part in (bill[:cut], bill[cut:])]
    assert sum(parts) == Fraction(whole.usd)


def test_the_callers_decimal_settings_change_nothing() -> None:
    bill = [used(123_456_789), used(1)]
    with localcontext() as settings:
        settings.prec = 2
        assert TABLE.cost(bill).usd == Decimal("30.8641975")


def test_a_tenth_of_a_dollar_ten_times_is_a_dollar() -> None:
    assert TABLE.cost([used(400_000)] * 10).usd == 1


@pytest.mark.parametrize(
    ("model", "answered_by", "input_price"),
    [
        ("acme-small", None, "0.25"),
        ("acme-small-2", None, "0.5"),
        ("acme-large", None, "3"),
        ("router", "acme-large", "3"),
        ("acme-small", "unheard-of", "0.25"),
        ("acme-small", "acme-large", "3"),
        ("ACME-small", None, None),
    ],
)
def test_a_call_has_the_price_of_the_closest_name_of_the_model_that_answered(
    model: str, answered_by: str | None, input_price: str | None
) -> None:
    cost = TABLE.cost([used(1_000_000, model, answered_by)])
    assert cost.usd == Decimal(input_price or 0)
    assert cost.is_complete is (input_price is not None)


def test_what_has_no_price_is_named_and_the_rest_is_counted() -> None:
    bill = [
        used(4, "ghost"),
        used(4),
        used(4, "ghost", "ghost-2"),
        used(1, "ghost"),
        ModelUsage(asked_for="here", answered_by=None, usage=Usage(), unmetered=1),
    ]
    cost = TABLE.cost(
        [*bill, ModelUsage(asked_for="acme-small", answered_by=None, usage=Usage(), unmetered=2)],
        billed=Usage(input=20),
    )
    assert cost == Cost(usd=Decimal("0.000001"), unpriced=("ghost", "ghost-2"), unmetered=2, unattributed=7)
    assert str(cost) == "at least 0.000001 USD"
    assert cost.to_dict() == {
        "usd": "0.000001",
        "unpricedModels": ["ghost", "ghost-2"],
        "unmeteredReplies": 2,
        "unattributedTokens": 7,
    }


def test_a_table_and_a_cost_survive_the_store() -> None:
    assert msgspec.json.decode(msgspec.json.encode(TABLE), type=PriceTable) == TABLE
    cost = TABLE.cost([used(7), used(7, "ghost")])
    assert msgspec.json.decode(msgspec.json.encode(cost), type=Cost) == cost


def test_a_float_means_the_number_as_it_is_printed() -> None:
    assert PriceTable.of({"a": {"input": 0.1, "output": 0.3}}, version="1").models["a"].input == Decimal("0.1")


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ({"input": "-1", "output": "1"}, "models.a.input: "),
        ({"input": "0.0000001", "output": "1"}, "models.a.input: "),
        ({"input": "NaN", "output": "1"}, "models.a.input: "),
        ({"input": "1e15", "output": "1"}, "models.a.input: Expected an amount of money of at most 15 digits"),
        ({"input": "1", "output": "1e99999999"}, "models.a.output: "),
        ({"input": "1"}, "models.a.output: "),
        ({"input": "1", "output": "1", "cached": "1"}, "models.a.cached: "),
    ],
)
def test_what_is_no_price_is_refused_by_name(price: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"price table '1': {said}"):
        PriceTable.of({"a": price}, version="1")


def test_what_is_no_table_and_a_limit_that_nobody_counts_to_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"price table '1': models\.m: Expected `object`, got `int`"):
        PriceTable.of({"m": 5}, version="1")  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="price table '1': models: Expected `object`, got `NoneType`"):
        PriceTable.of(None, version="1")  # type: ignore[arg-type]
    agent = AgentBuilder("a").with_model(ScriptedModel([say("Hi.")], name="known"))
    with pytest.raises(ConfigurationError, match="of at most 40 digits before the point"):
        agent.with_max_cost("1e99999999", prices=TABLE).build()
    largest = ModelPrice(input=Decimal(10**15 - 1), output=Decimal(1))
    assert PriceTable(version="1", models={"a": largest}).cost([used(2**63 - 1, "a")]).usd > 10**27


def test_a_date_is_a_date() -> None:
    with pytest.raises(ConfigurationError, match="date: "):
        PriceTable.of({}, version="1", date="November")


@pytest.mark.parametrize(("amount", "more"), [("0", "0.000001"), ("0.0000009", "0.000001"), ("2.5", "2.500001")])
def test_the_next_microdollar_is_above(amount: str, more: str) -> None:
    assert next_microdollar(Decimal(amount)) == Decimal(more)


@pytest.mark.parametrize(("amount", "text"), [("1E+2", "100"), ("1E-9", "0.000000001"), ("0.0125", "0.0125")])
def test_an_amount_is_written_without_an_exponent(amount: str, text: str) -> None:
    assert usd_text(Decimal(amount)) == text


@pytest.mark.parametrize("date", ["2026-99-99", "2026-02-30", "0000-01-01"])
def test_a_day_that_there_is_not_is_refused(date: str) -> None:
    with pytest.raises(ConfigurationError, match=f"PriceTable: date: Expected a day that there is, not '{date}'"):
        PriceTable.of({}, version="1", date=date)
