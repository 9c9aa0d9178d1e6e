from collections.abc import Sequence
from decimal import Decimal

import pytest

from steptrail.continuation import CostLimit, InputTokenLimit, OutputTokenLimit, StopReason
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.errors import ConfigurationError
from steptrail.models import PriceTable, Unpriced
from tests.unit.continuation.fakes import ALLOW, FORBID, FakeState

PRICES = PriceTable.of({"known": {"input": 1, "output": 1}}, version="1")
KINDS = Usage(input=1, output=2, cache_write=3, cache_read=4, reasoning=5)


def spent(*calls: ModelUsage, asks: str | None = "known", more: int = 0) -> FakeState:
    usage = sum((call.usage for call in calls), Usage(input=more))
    return FakeState(model_usage=calls, model_name=asks, usage=usage)


def known(tokens: int, unmetered: int = 0) -> ModelUsage:
    return ModelUsage(asked_for="known", answered_by=None, usage=Usage(input=tokens), unmetered=unmetered)


def ghost(tokens: int) -> ModelUsage:
    return ModelUsage(asked_for="ghost", answered_by=None, usage=Usage(input=tokens))


@pytest.mark.parametrize(
    ("guard", "numbers"),
    [
        (InputTokenLimit(8), {"inputTokens": 8, "maxInputTokens": 8}),
        (OutputTokenLimit(7), {"outputTokens": 7, "maxOutputTokens": 7}),
    ],
)
def test_a_limit_on_one_direction_counts_all_kinds_of_it_and_forbids_at_it(
    guard: InputTokenLimit | OutputTokenLimit, numbers: dict[str, int]
) -> None:
    state = FakeState(usage=KINDS)
    vote = guard.explain(state)
    assert (vote.decision, vote.stop_reason, vote.context) == (FORBID, StopReason.TOKEN_LIMIT, numbers)
    above = type(guard)(guard.most + 1).explain(state)
    assert (above.decision, above.stop_reason) == (ALLOW, None)


def test_sent_and_written_tokens_are_all_tokens() -> None:
    assert KINDS.all_input + KINDS.all_output == KINDS.total


def test_a_token_limit_says_its_numbers_and_takes_another_counter() -> None:
    assert InputTokenLimit(9).explain(FakeState(usage=KINDS)).reason == "Input tokens under limit: 8/9"
    assert OutputTokenLimit(2).explain(FakeState(usage=KINDS)).reason == "Output token limit reached: 7/2"
    assert InputTokenLimit(2, lambda _: 2).decide(FakeState()) is FORBID
    assert OutputTokenLimit(2, lambda _: 1).decide(FakeState()) is ALLOW


@pytest.mark.parametrize(
    ("limit", "what"), [(InputTokenLimit, "Max input tokens"), (OutputTokenLimit, "Max output tokens")]
)
def test_a_token_limit_is_not_negative(limit: type[InputTokenLimit | OutputTokenLimit], what: str) -> None:
    assert limit(0).decide(FakeState()) is FORBID
    with pytest.raises(ConfigurationError, match=f"^{what} must not be negative, it is -1"):
        limit(-1)


@pytest.mark.parametrize("amount", ["-0.01", "NaN", "sNaN", "Infinity", "1E+1000000", "1E-13"])
def test_a_cost_limit_is_an_amount(amount: str) -> None:
    with pytest.raises(ConfigurationError, match=r"the max_usd of a CostLimit: Expected .*, not "):
        CostLimit(Decimal(amount), PRICES)


@pytest.mark.parametrize(
    ("tokens", "decision", "reason"),
    [
        (9, ALLOW, "Cost under limit: 0.000009/0.00001 USD"),
        (10, FORBID, "Cost limit reached: 0.00001/0.00001 USD"),
        (12, FORBID, "Cost limit reached: 0.000012/0.00001 USD"),
    ],
)
def test_a_cost_limit_allows_under_it_and_forbids_at_it(tokens: int, decision: object, reason: str) -> None:
    limit = CostLimit(Decimal("0.00001"), PRICES)
    vote = limit.explain(spent(known(tokens)))
    assert (vote.decision, vote.reason, vote.given_reason) == (decision, reason, None)
    assert vote.stop_reason is (StopReason.GUARD if decision is FORBID else None)
    assert vote.context.get("limit") == ("max_cost" if decision is FORBID else None)
    assert (vote.context["maxCostUsd"], limit.decide(spent(known(tokens)))) == ("0.00001", decision)


@pytest.mark.parametrize(
    ("state", "told", "missing"),
    [
        (spent(asks="ghost"), {"unpricedModels": ["ghost"]}, "no price for ghost"),
        (spent(ghost(3), asks="ghost"), {"unpricedModels": ["ghost"]}, "no price for ghost"),
        (spent(ghost(3)), {"unpricedModels": ["ghost"]}, "no price for ghost"),
        (spent(known(3, 1)), {"unmeteredReplies": 1}, "replies that do not say what they used: 1"),
        (spent(known(3), more=4), {"unattributedTokens": 4}, "tokens of no known model: 4"),
    ],
)
@pytest.mark.parametrize("unpriced", ["fail_closed", "warn", "ignore"])
def test_what_has_no_price_forbids_or_is_told_or_is_ignored(
    unpriced: Unpriced, state: FakeState, told: dict[str, object], missing: str
) -> None:
    vote = CostLimit(Decimal(1), PRICES, unpriced).explain(state)
    cost = vote.context["costUsd"]
    expected: dict[str, object] = {"costUsd": cost, "maxCostUsd": "1"}
    match unpriced:
        case "fail_closed":
            assert vote.context == {**expected, **told, "undecidable": True, "limit": "max_cost"}
            assert (vote.decision, vote.stop_reason) == (FORBID, StopReason.GUARD)
            assert vote.reason == f"Cost cannot be told, at least {cost}/1 USD: {missing}"
        case "warn":
            assert (vote.decision, vote.context) == (ALLOW, {**expected, **told})
            assert vote.reason == f"Cost under limit: {cost}/1 USD; not counted: {missing}"
        case "ignore":
            assert (vote.decision, vote.context) == (ALLOW, expected)


@pytest.mark.parametrize("unpriced", ["fail_closed", "warn", "ignore"])
def test_what_can_be_priced_still_meets_the_limit(unpriced: Unpriced) -> None:
    vote = CostLimit(Decimal("0.00001"), PRICES, unpriced).explain(spent(known(10), ghost(1)))
    assert (vote.decision, vote.stop_reason, vote.context["limit"]) == (FORBID, StopReason.GUARD, "max_cost")


def test_the_order_of_the_calls_changes_no_vote() -> None:
    calls: Sequence[ModelUsage] = [
        known(3),
        ModelUsage(asked_for="router", answered_by="known", usage=Usage(output=2)),
        known(1),
    ]
    votes = [CostLimit(Decimal(1), PRICES).explain(spent(*order)) for order in (calls, calls[::-1])]
    assert votes[0] == votes[1]


def test_a_cost_limit_of_nothing_forbids_before_the_first_call() -> None:
    assert CostLimit(Decimal(0), PRICES).decide(spent()) is FORBID
