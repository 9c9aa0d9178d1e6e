"""The random lives that the other properties are about reach what can happen at all."""

from collections import Counter
from typing import get_args

import pytest
from hypothesis import Phase, given, seed, settings

from steptrail.domain.agent.events import AgentEvent
from tests.properties.driving import Life, lives

LIVES = 300


@pytest.mark.slow("draws 300 lives")
def test_every_event_occurs_in_the_lives_that_are_drawn() -> None:
    seen = Counter[type[AgentEvent]]()
    sizes: list[int] = []

    @seed(1)
    @settings(
        max_examples=LIVES,
        database=None,
        phases=[Phase.generate],
    )
    @given(lives(forks=True))
    def draw(life: Life) -> None:
        sizes.append(len(life.committed))
        seen.update({type(record.event) for record in life.committed})

    draw()
    assert len(sizes) == LIVES
    assert {kind.__name__ for kind in get_args(AgentEvent)} - {kind.__name__ for kind in seen} == set()
    # Answers to approvals, retries and hooks that step in are what short lives do not come to.
    assert sorted(sizes)[LIVES // 2] > 21
