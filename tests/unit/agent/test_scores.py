"""Scores: what may be one, of what, and that a key makes it safe to give one again."""

from typing import Any

import pytest

from steptrail.domain.agent.events import AgentEvent, SessionForked, SessionScored
from steptrail.domain.errors import ConfigurationError, NotStorable
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.scores import GiveScore
from steptrail.testing.scenario import given
from tests.unit.agent.story import answered, decided, done, finished, opened

OVER = (*opened(), decided(0), *answered(1), done(1), finished())


def score(name: str = "helpful", value: Any = 1, **more: Any) -> GiveScore:
    return GiveScore(name=name, value=value, by="ana", **more)


def event(name: str = "helpful", value: Any = 1, **more: Any) -> SessionScored:
    return SessionScored(name=name, value=value, by="ana", execution=1, **more)


@pytest.mark.parametrize("before", [opened(), OVER[:3], OVER], ids=["begun", "at work", "over"])
def test_an_execution_is_scored_whatever_it_is_doing(before: tuple[AgentEvent, ...]) -> None:
    given(*before).when(score()).then(event())


def test_an_execution_that_there_is_not_is_not_scored() -> None:
    given().when(score()).then_rejected("cannot score session 'session': no execution has begun in it")
    given(*OVER).when(score(execution=2)).then_rejected("it has no execution 2: there are 1")


def test_the_past_of_a_fork_is_scored_where_it_happened() -> None:
    status = ExecutionStatus.COMPLETED
    forked = SessionForked(
        name="a", source="source", version=9, digest="", by="ana", status=status, executions=1, steps=1
    )
    given(*OVER, forked).when(score()).then_rejected("execution 1 belongs to 'source': score it there")


def test_a_key_is_one_score_and_comes_with_no_other() -> None:
    keyed = (*OVER, event(key="k"))
    given(*keyed).when(score(key="k")).then_nothing()
    given(*keyed).when(score(key="k", execution=1)).then_nothing()
    for other in (score(value=True, key="k"), score(comment="c", key="k"), score(step=1, key="k")):
        given(*keyed).when(other).then_rejected("the key 'k' came with another")


@pytest.mark.parametrize("value", [0, -1, 0.25, True, "formal", 1_000_000, -1e6])
def test_a_value_is_a_number_a_truth_value_or_a_label(value: object) -> None:
    given(*OVER).when(score(value=value)).then(event(value=value))


@pytest.mark.parametrize(
    "value", [None, [1], "", "  ", "x" * 101, 1_000_001, -1e7, 10**400, float("inf")], ids=lambda each: repr(each)[:12]
)
def test_nothing_else_is_a_value(value: object) -> None:
    with pytest.raises((ConfigurationError, NotStorable)):
        score(value=value)


@pytest.mark.parametrize("value", [float("nan"), "a\0b", "\ud800"], ids=["nan", "nul", "half"])
def test_a_value_that_no_store_takes_is_refused(value: object) -> None:
    with pytest.raises(NotStorable):
        score(value=value)


@pytest.mark.parametrize("name", ["", " a", "a ", "a>1", "a=b", "x" * 65, "two\nlines"])
def test_a_name_fits_on_a_line_and_into_a_filter(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a score"):
        score(name)


def test_a_comment_is_bounded() -> None:
    with pytest.raises(ConfigurationError, match="at most 10,000 characters, not 10,001"):
        score(comment="x" * 10_001)
