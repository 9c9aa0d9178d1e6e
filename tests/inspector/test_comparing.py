"""The state after any event, what an event changed in it, and two runs beside each other."""

import re
from html import unescape
from pathlib import Path

import httpx
import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.prices import PriceTable
from steptrail.inspector import inspector
from steptrail.interfaces.cli.kinds import KindShown, kind_shown
from steptrail.testing import ScriptedModel, call
from tests.harness.beside_the_loop import beside_the_loop
from tests.harness.hands import by_hand
from tests.inspector.conftest import Opened, everything
from tests.inspector.inspected import desk, search
from tests.inspector.test_pages import words
from tests.inspector.test_security import of_acme


def changes(page: str) -> list[tuple[str, str]]:
    """Return the changes that a page shows, each with its class of the style sheet."""
    return [(tone, unescape(said)) for tone, said in re.findall(r'<li class="(\w+)"><code>(.*?)</code>', page)]


async def test_a_state_is_written_out_while_the_loop_goes_on(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(stream: str) -> KindShown:
        really = kind_shown(stream)
        return really._replace(state_data=beside_the_loop(really.state_data))

    monkeypatch.setattr("steptrail.interfaces.http.inspector.state.kind_shown", shown)
    async with opened() as client:
        assert changes((await client.get("/state/failed?at=20&from=11")).text)


@pytest.mark.acceptance("8.6-17")
async def test_the_state_comes_with_what_an_event_changed(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs/failed?at=20&from=11")).text
        alone = (await client.get("/state/failed?at=20&from=11")).text
        nothing = words((await client.get("/runs/failed?at=5&from=5")).text)
        later = words((await client.get("/runs/failed?at=3&from=9")).text)
    assert ("warn", "~ steps: 1 → 2") in changes(page)
    assert ("warn", "~ resolvedBy: ToolCallPresenceCheck → ErrorPolicyCriterion") in changes(page)
    assert any(tone == "good" and said.startswith("+ messages[4]: ") for tone, said in changes(page))
    assert changes(alone) == changes(page)
    assert "After event 20 of 21" in words(alone)
    assert "New since event 5 Nothing is new." in nothing
    assert "New since event 3 Nothing is new." in later


async def test_the_decision_leads_to_the_state_before_and_after_its_step(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs/failed")).text
        (way,) = re.findall(r'href="([^"]+)" data-row data-before-and-after', page)
        shown = (await client.get(way.replace("&amp;", "&"))).text
    assert way == "/runs/failed?at=20&amp;from=12#state"
    assert ("warn", "~ steps: 1 → 2") in changes(shown)


async def test_of_hidden_values_only_the_paths_of_changes_are_told(opened: Opened) -> None:
    async with opened(show="shape") as client:
        told = changes((await client.get("/state/failed?at=20&from=11")).text)
        compared = (await client.get("/compare?a=failed&b=answered")).text
    assert ("warn", "steps: changed") in told
    assert all(re.fullmatch(r"\S+: (added|removed|changed)", said) for _, said in told)
    assert "Look it up" not in compared


async def test_a_slider_stands_over_every_event_and_works_without_a_script(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs/failed")).text
    assert '<input type="range" name="at" min="0" max="21" value="21" data-slider>' in page


@pytest.mark.acceptance("8.6-18")
async def test_two_runs_part_at_the_first_event_that_says_something_else(tmp_path: Path) -> None:
    prices = PriceTable.of({"scripted": {"input": "1", "output": "2"}}, version="test")
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        for name, query in (("one", "tea"), ("two", "tea"), ("three", "milk")):
            script = (call("search", query="shelf"), call("search", query=query), "Found.")
            agent = AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(search).with_prices(prices)
            await trail.run(agent.build(), "Where is it?", session=name, metadata={"tags": {"n": name}})
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            same, parted = [(await client.get(f"/compare?a=one&b={other}")).text for other in ("two", "three/1")]
    assert "They do not differ" in words(same)
    assert "differs" not in words(same)
    assert "They differ from event 15 on" in words(parted)
    assert changes(parted) == [("warn", "~ reply.parts[0].arguments.query: tea → milk")]
    assert len(re.findall('<tr class="warn at">', parted)) == 1
    assert re.search(r"\d+ equal events before these are left out", parted)


async def test_a_run_that_ended_earlier_is_told_to_have_ended(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("Yes."), "Hi", session="short")
        await trail.run(desk("Yes."), "Hi", session="long")
        await trail.session("long").send(desk("Yes, again."), "Once more")
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            pages = [words((await client.get(f"/compare?a=short&b={each}")).text) for each in ("long/1", "long/2")]
    assert "They do not differ" in pages[0]
    assert re.search(r"They differ from events \d+ and \d+ on", pages[1])


async def test_of_a_damaged_run_what_comes_before_the_damage_is_compared(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Steptrail.open(f"sqlite:///{path}") as trail:
        for name in ("whole", "spoilt", "claimed"):
            await trail.run(desk("Yes."), "Hi", session=name)
        with by_hand(path) as hand:
            hand.execute("UPDATE stored_events SET state = 'x' WHERE stream = 'agent:spoilt' AND version = 8")
            hand.execute(
                "UPDATE commits SET size = size + 2 "
                "WHERE version = 1 AND stream = (SELECT number FROM streams WHERE id = 'agent:claimed')"
            )
        transport = httpx.ASGITransport(inspector(trail, authorize=everything))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400") as client:
            pairs = ("whole", "spoilt"), ("spoilt", "spoilt"), ("claimed", "whole")
            compared = [words((await client.get(f"/compare?a={a}&b={b}")).text) for a, b in pairs]
            page = (await client.get("/runs/spoilt")).text
            claimed = words((await client.get("/runs/claimed")).text)
    for shown, last in zip(compared, (7, 7, 6), strict=True):
        # An execution begins with the second event of its stream.
        assert f"They do not differ in the first {last - 1} events" in shown
        assert f"= same {last} " in shown
        assert "has ended" not in shown
    assert "data-row data-step>" in page  # the bars of the step that comes before it
    assert "lays claim to it" in claimed


@pytest.mark.parametrize(
    "query", ["a=failed&b=nobody", "a=failed&b=failed/9", "a=../x&b=failed", "a=failed&b=failed/0"]
)
async def test_what_is_not_there_is_not_compared(opened: Opened, query: str) -> None:
    async with opened() as client:
        assert (await client.get(f"/compare?{query}")).status_code == 404


async def test_a_run_of_another_tenant_is_not_compared(opened: Opened) -> None:
    async with opened(authorize=of_acme) as client:
        assert (await client.get("/compare?a=answered&b=failed")).status_code == 404
        assert (await client.get("/state/failed?at=1")).status_code == 404
        assert (await client.get("/compare?a=answered&b=answered")).status_code == 200


async def test_a_comparison_of_one_run_asks_for_the_other(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/compare?a=failed")).text
    assert 'name="a" value="failed"' in page
    assert "Give two runs by their names" in words(page)
