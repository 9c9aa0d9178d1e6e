"""One row a limit: what else has to say the same of it is compared with its row."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import structs

from steptrail import AgentBuilder, Limits
from steptrail.continuation import ContinuationCriteria, ContinuationEvaluation, StateView
from steptrail.domain.continuation.limits import LIMITS, LimitName
from steptrail.domain.errors import InvalidSetting
from steptrail.domain.inference import FinishReason
from steptrail.domain.usage import ModelUsage, Usage
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.cli.parser import option_of
from steptrail.models import PriceTable
from steptrail.testing import ScriptedModel
from tests.unit.continuation.fakes import ALLOW, FORBID, FakeState, FakeStep

NUMBERS = {name: limit for name, limit in LIMITS.items() if limit.unit is not None}
PRICES = PriceTable.of({"scripted": {"input": 1, "output": 2}}, version="1")
NONE = Limits(max_steps=None, max_tokens=None, timeout=None, max_unproductive_segments=10**9, prices=PRICES)
SMALL: dict[str, object] = {
    **dict.fromkeys(NUMBERS, 1),
    "max_cost": Decimal("0.000001"),
    "finish_reasons": (FinishReason.STOP, FinishReason.LENGTH),
}
MUCH = FakeState(
    steps=(FakeStep(),) * 3,
    usage=Usage(input=4, output=5),
    model_usage=(ModelUsage(asked_for="scripted", answered_by=None, usage=Usage(input=4, output=5)),),
    model_name="scripted",
    elapsed_seconds=6.5,
    cumulative_execution_seconds=7.5,
    tool_call_count=8,
    unproductive_segments=9,
)
"""More of everything than what is small."""


def voted(limits: Limits, name: str) -> ContinuationEvaluation:
    settings, criteria = zip(*limits.criteria(), strict=True)
    votes = ContinuationCriteria(*criteria, settings=settings).votes(MUCH)
    return votes[settings.index(name)]


def test_the_names_of_the_limits_are_those_of_the_table_in_its_order() -> None:
    assert get_args(LimitName) == tuple(LIMITS)


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_is_met_says_what_would_turn_its_vote_around(name: str) -> None:
    limits = structs.replace(NONE, **{name: SMALL[name]})
    met = voted(limits, name)
    assert (met.decision, met.is_limit, met.setting) == (FORBID, True, name)
    assert met.criterion_class == LIMITS[name].__name__
    more = LIMITS[name].more(name, met.context, getattr(limits, name))
    assert name in more.settings
    changed = structs.replace(limits, **dict(more.settings))
    assert voted(changed, name).decision is ALLOW
    assert name.replace("_", " ") in more.text.replace("_", " ")


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_in_shadow_is_the_same_guard_and_stops_nothing(name: LimitName) -> None:
    limits = structs.replace(NONE, **{name: SMALL[name]})
    shadowed = voted(structs.replace(limits, shadow=(name,)), name)
    assert (shadowed.decision, shadowed.shadow) == (ALLOW, FORBID)
    assert shadowed.reason == f"{voted(limits, name).reason} (shadow)"


@pytest.mark.parametrize("name", LIMITS)
def test_the_builder_sets_every_limit_and_puts_it_in_shadow(name: str) -> None:
    def made(**shadow: bool) -> Limits:
        builder = AgentBuilder("desk").with_model(ScriptedModel([])).with_prices(PRICES)
        values: Any = SMALL[name] if name == "finish_reasons" else (SMALL[name],)
        returned: AgentBuilder = getattr(builder, f"with_{name}")(*values, **shadow)
        assert returned is builder
        return builder.build().limits

    assert (getattr(made(), name), made().shadow) == (SMALL[name], ())
    assert (getattr(made(shadow=True), name), made(shadow=True).shadow) == (SMALL[name], (name,))


@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "max_cost"])
def test_the_builder_takes_a_number_of_the_type_that_the_setting_has(name: str) -> None:
    method = getattr(AgentBuilder, f"with_{name}")
    _, number, shadow = inspect.signature(method).parameters.values()
    assert (shadow.name, shadow.kind, shadow.default) == ("shadow", shadow.KEYWORD_ONLY, False)
    assert get_type_hints(method)[number.name] == get_type_hints(Limits)[name]


def test_a_cost_that_is_no_number_is_told_with_one_that_is() -> None:
    with pytest.raises(
        InvalidSetting, match=r"^Limits: max_cost: Expected a decimal number such as '0\.50', not '1,5'$"
    ):
        Limits(max_cost="1,5")  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["resume", "retry"])
def test_the_command_line_sets_every_limit_that_is_a_number(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    for name, limit in NUMBERS.items():
        assert f"{option_of(name)} " in told
        assert limit.counts in told


@pytest.mark.slow("starts a process")
def test_a_process_that_only_reads_votes_knows_the_words_of_all_that_ship() -> None:
    read = """
from steptrail.domain.continuation.evaluation import ContinuationEvaluation
said = {"criterion": "RetryLimit", "decision": "forbid", "context": {"consecutiveFailures": 2, "maxRetries": 2}}
print(ContinuationEvaluation.from_dict(said).reason)
"""
    ran = subprocess.run([sys.executable, "-c", read], check=True, capture_output=True, text=True)
    assert ran.stdout == "Retry limit reached: 2/2\n"


def test_a_counter_of_ones_own_replaces_the_states_in_every_limit_on_a_number() -> None:
    def told(used: int) -> Callable[[StateView], int]:
        return lambda _: used

    for name, limit in NUMBERS.items():
        if name != "max_cost":
            make: Any = limit
            assert [make(5, told(used)).decide(FakeState()) for used in (4, 6)] == [ALLOW, FORBID]
