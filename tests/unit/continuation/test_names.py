import pytest

from steptrail.continuation import CallableCriterion, StepsLimit, criterion_name, short_name
from tests.unit.continuation.fakes import ALLOW, Decides, FakeStep


def test_what_ships_with_steptrail_goes_by_its_class_name() -> None:
    assert criterion_name(StepsLimit(3)) == "StepsLimit"
    assert criterion_name(StepsLimit) == "StepsLimit"
    assert criterion_name(CallableCriterion) == "CallableCriterion"


def test_anything_else_goes_by_its_qualified_name() -> None:
    assert criterion_name(FakeStep()) == f"{__name__.rpartition('.')[0]}.fakes.FakeStep"


def test_a_name_of_its_own_comes_first() -> None:
    assert criterion_name(Decides(ALLOW, name="budget")) == "budget"
    assert criterion_name(CallableCriterion(lambda _: True, name="office hours")) == "office hours"


def test_an_empty_name_is_no_name() -> None:
    assert criterion_name(Decides(ALLOW, name="")).endswith("fakes.Decides")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("StepsLimit", "StepsLimit"),
        ("app.guards.StepsLimit", "StepsLimit"),
        ("app.guards:StepsLimit", "StepsLimit"),
        (r"App\Guards\StepsLimit", "StepsLimit"),
        ("app.guards:Outer.Inner", "Inner"),
        ("trailing.", "trailing."),
        ("", ""),
    ],
)
def test_the_short_name_is_the_whole_last_part(name: str, short: str) -> None:
    assert short_name(name) == short
