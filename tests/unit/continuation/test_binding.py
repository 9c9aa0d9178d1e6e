"""A limit binds with its value, unless it is off or only on trial."""

import pytest
from msgspec import structs

from steptrail import Limits

SET = Limits(max_tool_calls=3, max_unproductive_segments=2, timeout=5.0, cumulative_timeout=7.0)


def bound_by(limits: Limits) -> tuple[float | None, ...]:
    return (
        limits.binding("max_tool_calls"),
        limits.binding("max_unproductive_segments"),
        limits.binding("timeout"),
        limits.binding("cumulative_timeout"),
    )


def test_a_limit_that_is_set_binds_with_its_value() -> None:
    assert bound_by(SET) == (3, 2, 5.0, 7.0)


def test_a_limit_that_is_off_does_not_bind() -> None:
    assert bound_by(Limits(timeout=None)) == (None, 3, None, None)


@pytest.mark.parametrize("place", range(4))
def test_a_limit_in_shadow_does_not_bind_and_the_others_do(place: int) -> None:
    names = ("max_tool_calls", "max_unproductive_segments", "timeout", "cumulative_timeout")
    bound = bound_by(structs.replace(SET, shadow=(names[place],)))
    assert [at for at, value in enumerate(bound) if value is None] == [place]
