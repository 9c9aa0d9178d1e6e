"""However much an event says, others have the event loop while it is put into words and searched for secrets."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from steptrail import Steptrail
from steptrail.domain.flow.events import FlowEvent
from steptrail.domain.json_value import JsonValue
from steptrail.domain.kernel.event import Event
from steptrail.events import ToolExecutionCompleted
from steptrail.interfaces.cli.kinds import summary_of
from steptrail.projections.flow_drawing import DrawnFlow
from steptrail.projections.flow_graph import drawn_run
from tests.harness.beside_the_loop import beside_the_loop
from tests.inspector.conftest import Opened

HERE = "steptrail.interfaces.http.inspector"


@pytest.mark.parametrize(
    ("path", "most"),
    [("/runs/failed", 21), ("/find/failed?q=nothing+like+it", 21), ("/compare?a=failed&b=failed", 10)],
)
async def test_events_are_put_into_words_while_the_loop_goes_on(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, path: str, most: int
) -> None:
    said = list[str]()

    def noted(stream: str, event: Event) -> str:
        said.append(event.TYPE)
        return summary_of(stream, event)

    async with opened() as client:
        monkeypatch.setattr(f"{HERE}.events.summary_of", beside_the_loop(noted))
        assert (await client.get(path)).status_code == 200
    assert 0 < len(said) <= most


@pytest.mark.parametrize("page", ["runs/{}?event={at}", "body/{}/{at}", "state/{}", "state/{}?at={at}&from=1"])
async def test_what_a_run_holds_is_masked_while_the_loop_goes_on(opened: Opened, inspected: Path, page: str) -> None:
    async with Steptrail.open(f"sqlite:///{inspected}", read_only=True) as trail:
        events = await trail.session("answered").events()
    at = next(each.version for each in events if isinstance(each.event, ToolExecutionCompleted))
    masked, found = list[JsonValue](), ["a box of tea", "a shelf"]

    def noted(value: JsonValue) -> JsonValue:
        masked.append(value)
        return value

    beside = beside_the_loop(noted)

    def mask(key: str, value: JsonValue) -> JsonValue:
        return beside(value) if value == found else value

    async with opened(mask=mask) as client:
        assert (await client.get(f"/{page.format('answered', at=at)}")).is_success
    assert masked


async def test_the_graph_of_a_workflow_is_drawn_while_the_loop_goes_on(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = list[DrawnFlow | None]()

    def noted(events: Iterable[FlowEvent]) -> DrawnFlow | None:
        drawn.append(drawn_run(events))
        return drawn[-1]

    async with opened() as client:
        monkeypatch.setattr(f"{HERE}.graph.drawn_run", beside_the_loop(noted))
        assert (await client.get("/runs/flow:review")).status_code == 200
    (graph,) = drawn
    assert graph is not None
