"""From the state after an event one goes to the event, the step and the decision before it and behind it."""

import re
from html import unescape
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.agent.events import ContinuationEvaluated, StepCompleted
from steptrail.domain.flow.events import NodeCompleted, NodeFailureRecorded
from steptrail.interfaces.http.inspector import stops
from steptrail.interfaces.http.inspector.stops import neighbours_of
from tests.inspector.conftest import Opened


def hops(page: str) -> dict[str, str]:
    """Return the links to other states, by their names."""
    (part,) = re.findall(r'<nav class="pager" aria-label="Other states">(.*?)</nav>', page, re.S)
    return {said: unescape(place) for place, said in re.findall(r'<a href="([^"]+)" aria-label="([^"]+)">', part)}


@pytest.mark.acceptance("8.6-30")
async def test_a_state_leads_to_event_step_and_decision_before_and_behind(opened: Opened) -> None:
    async with opened() as client:
        page = hops((await client.get("/runs/failed?at=12")).text)
        assert page == {
            "event before, event 11": "/runs/failed?at=11#state",
            "next event, event 13": "/runs/failed?at=13#state",
            "step before, event 10": "/runs/failed?at=10#state",
            "next step, event 18": "/runs/failed?at=18#state",
            "decision before, event 4": "/runs/failed?at=4#state",
            "next decision, event 20": "/runs/failed?at=20#state",
        }
        # What else the address says stays.
        kept = hops((await client.get("/runs/failed/1?at=12&from=3&bars=slow&w=20")).text)
        assert kept["next step, event 18"] == "/runs/failed/1?w=20&bars=slow&at=18&from=3#state"
        alone = hops((await client.get("/state/failed/1?at=12&from=3&bars=slow&w=20")).text)
        assert alone == kept
        first = hops((await client.get("/runs/failed?at=0")).text)
        assert [each.partition(",")[0] for each in first] == ["next event", "next step", "next decision"]
        last = hops((await client.get("/runs/failed?at=999")).text)
        assert [each.partition(",")[0] for each in last] == ["event before", "step before", "decision before"]
        visits = hops((await client.get("/runs/flow:review?at=8")).text)
        assert {each.partition(",")[0] for each in visits} >= {"visit before", "next visit"}
        assert not [each for each in visits if "decision" in each]


@pytest.mark.parametrize("part", [1, 2, 100])
async def test_the_neighbours_are_the_nearest_wherever_one_is(
    inspected: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    monkeypatch.setattr(stops, "_PART", part)
    monkeypatch.setattr(stops, "_PARTS", 100 // part)
    async with Steptrail.open(f"sqlite:///{inspected}", read_only=True) as trail:
        for name, kinds in (
            ("answered", {"step": StepCompleted, "decision": ContinuationEvaluated}),
            ("flow:published", {"step": (NodeCompleted, NodeFailureRecorded)}),
        ):
            handle = trail.handle(name)
            records = await handle.events()
            for at in range(len(records) + 1):
                found = await neighbours_of(trail.store, handle.stream_id, at, len(records))
                assert found is not None
                for word, kind in kinds.items():
                    places = [each.version for each in records if isinstance(each.event, kind)]
                    assert found.before[word] == max((each for each in places if each < at), default=None)
                    assert found.behind[word] == min((each for each in places if each > at), default=None)


async def test_only_a_part_of_a_run_is_looked_through(inspected: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stops, "_PART", 1)
    monkeypatch.setattr(stops, "_PARTS", 2)
    async with Steptrail.open(f"sqlite:///{inspected}", read_only=True) as trail:
        found = await neighbours_of(trail.store, "agent:failed", 15, 21)
        nothing = await neighbours_of(trail.store, "other:x", 15, 21)
    assert found is not None
    assert {*found.before.values(), *found.behind.values()} == {None}
    assert nothing is None
