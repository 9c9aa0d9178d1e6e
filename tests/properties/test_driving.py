"""The random lives that the other properties are about reach what can happen at all."""

from collections import Counter
from typing import get_args

import pytest
from hypothesis import Phase, given, seed, settings

from steptrail.domain.agent.events import (
    AgentEvent,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ExecutionResumed,
    SessionForked,
    StepStarted,
)
from tests.properties.driving import Life, lives

AT_A_TIME, MOST = 30, 12
WANTED = {kind.__name__ for kind in get_args(AgentEvent)}


@pytest.mark.slow("draws up to 360 lives")
def test_every_event_occurs_in_the_lives_that_are_drawn() -> None:
    seen = Counter[str]()
    several = Counter({"turned": 0, "mixed": 0, "resumed between": 0})
    sizes: list[int] = []

    def draw(life: Life) -> None:
        sizes.append(len(life.committed))
        seen.update({type(record.event).__name__ for record in life.committed})
        several.update(what_became_of_several(life))

    drawn = settings(max_examples=AT_A_TIME, database=None, phases=[Phase.generate])(given(lives(forks=True))(draw))
    # Of the first 30 seeds, this needs the fewest.
    for number in range(6, 6 + MOST):
        seed(number)(drawn)()
        # A reply with several questions comes to unlike answers, in any order, also with a resume between two of them.
        if seen.keys() >= WANTED and min(several.values()) >= 3:
            break
    assert WANTED - seen.keys() == set()
    assert min(several.values()) >= 3, several
    # Answers to approvals, retries and hooks that step in are what short lives do not come to.
    assert sorted(sizes)[len(sizes) // 2] > 20


def what_became_of_several(life: Life) -> set[str]:
    """Return how the questions of one reply that were open together were answered."""
    found, answers, was_resumed = set[str](), dict[str, type[AgentEvent]](), False
    for state, event in zip(life.states(), (record.event for record in life.committed), strict=False):
        match event:
            case StepStarted() | SessionForked():
                answers, was_resumed = {}, False
            case ApprovalGranted() | ApprovalDenied() | ApprovalExpired() if len(state.tool_executions) > 1:
                found |= {"turned"} if any(event.approval_id < each for each in answers) else set()
                found |= {"mixed"} if answers.keys() and type(event) not in answers.values() else set()
                found |= {"resumed between"} if was_resumed else set()
                answers[event.approval_id] = type(event)
            case ExecutionResumed():
                was_resumed = bool(answers) and bool(state.open_approvals)
            case _:
                pass
    return found
