"""What is read from a log about how soon workers went on."""

from collections.abc import Sequence

import pytest

from steptrail.domain.agent.events import AgentEvent, WaitStarted
from steptrail.domain.kernel.record import Recorded
from steptrail.domain.shared.run import SegmentEnd
from tests.harness.fleet_delays import Delays, delays_in, quantile
from tests.unit.agent.story import asked, opened, resumed

SECOND = 1_000_000
START = opened()[-1]


def at(*events: tuple[int, AgentEvent]) -> Sequence[Recorded[AgentEvent]]:
    return [Recorded(version, second * SECOND, event) for version, (second, event) in enumerate(events, 1)]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (at((1, START), (3, resumed(1, SegmentEnd.START))), Delays(due=(2.0,))),
        (at((1, START), (2, asked()), (9, resumed(2, SegmentEnd.CRASH))), Delays(crashed=(7.0,))),
        (
            at((1, WaitStarted(kind="retry", until=5 * SECOND)), (6, resumed(2, SegmentEnd.WAIT))),
            Delays(due=(1.0,)),
        ),
        (at((1, WaitStarted(kind="approval")), (6, resumed(2, SegmentEnd.WAIT))), Delays()),
        (at((1, START)), Delays()),
    ],
)
def test_a_session_is_due_from_its_start_from_an_answer_and_from_the_end_of_its_wait(
    records: Sequence[Recorded[AgentEvent]], expected: Delays
) -> None:
    assert delays_in(records) == expected


def test_they_are_told_in_words() -> None:
    told = Delays((1.0, 2.0, 9.0), (4.0,)) + Delays((3.0,))
    assert str(told) == "due to running: p50 3.00 s, p99 9.00 s of 4; dead to running: p50 4.00 s, p99 4.00 s of 1"
    assert (str(Delays()), quantile((), 0.5)) == ("", 0.0)
