"""Which bars of a run are shown: all, those with errors, slow ones, rests. The address holds the choice."""

import re
from collections.abc import Sequence
from html import unescape
from typing import Any

import httpx
import pytest

from steptrail import Steptrail
from steptrail.domain.agent.events import (
    InferenceCompleted,
    InferenceFailed,
    StepCompleted,
    StepStarted,
    WaitEnded,
    WaitStarted,
)
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.record import Recorded
from steptrail.inspector import inspector
from steptrail.interfaces.http.inspector.bar_choice import BARS, ChosenBars, chosen_bars
from steptrail.interfaces.http.inspector.bars import drawn_rows
from steptrail.interfaces.http.inspector.run import WINDOW
from steptrail.testing import say
from steptrail.workflow import Workflow
from tests.inspector.conftest import Opened, everything
from tests.inspector.test_pages import words
from tests.inspector.test_waterfall import ERROR, SECOND, model_asked

HOUR = 3_600


def steps(*lengths: int, rest: dict[int, int] | None = None, failing: int = 0) -> Sequence[Recorded[Any]]:
    """Return the events of steps of so many seconds: some with a rest of so many more, one with a try that failed."""
    records: list[Recorded[Any]] = []
    now = 0

    def add(event: Event, after: int = 0) -> None:
        nonlocal now
        now += after
        records.append(Recorded(len(records) + 1, now * SECOND, event))

    for number, length in enumerate(lengths, 1):
        add(StepStarted(number=number))
        add(model_asked())
        if number == failing:
            add(InferenceFailed(error=ERROR, duration_seconds=0))
            add(model_asked(2))
        if waits := (rest or {}).get(number):
            add(WaitStarted(kind="approval"))
            add(WaitEnded(reason="approved", by="ana"), waits)
        add(InferenceCompleted(reply=say("Yes."), duration_seconds=length), length)
        add(StepCompleted(number=number, duration_seconds=length, errors=0))
    return records


def chosen(records: Sequence[Recorded[Any]], word: str | None = None) -> ChosenBars:
    return chosen_bars(drawn_rows("agent:a", records, 0), word)


def names(found: ChosenBars) -> Sequence[str]:
    return [row.name for row in found.rows]


def test_slow_is_twice_the_median_and_a_rest_makes_nothing_slow() -> None:
    records = steps(2, 2, 3, 4, 9, 1, rest={1: HOUR, 5: 1})
    assert chosen(records).median == 2.5
    assert names(chosen(records, "slow")) == ["step 5"]
    assert chosen(records).counts == {"errors": 0, "slow": 1, "rests": 2}
    assert names(chosen(records, "rests")) == ["rest", "rest"]
    assert names(chosen(steps(2, 2, 4), "slow")) == ["step 3"]
    for nothing_is_slow in (steps(3), steps(3, 3, 3), steps(0, 0, 0), steps()):
        assert names(chosen(nothing_is_slow, "slow")) == []


def test_a_try_that_failed_is_an_error_also_when_another_one_came_after_it() -> None:
    assert names(chosen(steps(1, 1, 1, failing=2), "errors")) == ["step 2"]


def test_another_word_chooses_all() -> None:
    found = chosen(steps(1, 2), "quick")
    assert (found.word, names(found)) == (None, ["step 1", "step 2"])


def ways(page: str) -> dict[str, str]:
    """Return the links that choose bars, by their words."""
    (part,) = re.findall(r'<nav aria-label="Which bars are shown">(.*?)</nav>', page, re.S)
    return {said: unescape(place) for place, said in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', part)}


def shown(page: str) -> Sequence[str]:
    return re.findall(r"data-row data-step>([^<]+)</a>", page)


@pytest.mark.acceptance("8.6-27")
async def test_the_bars_of_a_run_are_chosen_by_links_that_the_address_holds(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs/failed")).text
        assert shown(page) == ["step 1", "step 2"]
        assert list(ways(page)) == ["all 2", "errors 1", *list(ways(page))[2:]]
        told = r"Slow: at least 2 times the median of all of these, [\d.]+ m?s, rests not counted"
        assert re.search(told, words(page))
        errors = (await client.get(ways(page)["errors 1"])).text
        assert shown(errors) == ["step 2"]
        assert 'bars=errors#bars" aria-current="true"' in errors
        # What one goes to from there keeps the choice, and so does an execution in the address.
        for link in re.findall(r'href="([^"]+)" data-row data-step', errors):
            assert link.startswith("/runs/failed?bars=errors&amp;e=")
        assert ways(errors)["all 2"] == "/runs/failed#bars"
        of_one = (await client.get("/runs/failed/1?bars=errors&at=9")).text
        assert ways(of_one)["rests 0"] == "/runs/failed/1?bars=rests#bars"
        assert '<input type="hidden" name="bars" value="errors">' in of_one
        waits = (await client.get("/runs/asks?bars=rests")).text
        assert shown(waits) == ["rest"]
        none = words((await client.get("/runs/failed?bars=rests")).text)
        assert "None of these is so." in none
        # The decision still leads to the state before and after its step, whichever bars are shown.
        assert "The state before and after this step" in none
        visits = (await client.get("/runs/flow:review?bars=errors")).text
        assert shown(visits) == ["count"]


@pytest.mark.parametrize("word", ["", "zzz", "<script>", "errors\x00", "../..", "e" * 5_000, "ERRORS"])
async def test_a_word_that_there_is_not_shows_all_and_is_in_no_link(opened: Opened, word: str) -> None:
    async with opened() as client:
        answer = await client.get("/runs/failed", params={"bars": word})
    assert answer.status_code == 200
    assert shown(answer.text) == ["step 1", "step 2"]
    assert not [place for place in re.findall(r'href="([^"]*)"', answer.text) if re.search(r"bars=(?!\w+#bars)", place)]


def test_the_words_are_those_of_the_page() -> None:
    assert set(chosen([]).counts) == set(BARS)


async def test_a_visit_that_is_longer_than_a_stretch_is_in_an_earlier_one_to_which_a_link_leads() -> None:
    flow = (
        Workflow("many")
        .function("items", lambda envelope: list(range(WINDOW // 2)), output="items")
        .map("each", over="items", function=lambda envelope: 1, concurrency=100)
        .chain("items", "each")
        .build()
    )
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(flow, session="many")
        app = inspector(trail, authorize=everything)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8400") as client:
            last = (await client.get("/runs/flow:many")).text
            (earlier,) = re.findall(r'<a href="([^"]+#bars)">Earlier</a>', last)
            first = (await client.get(unescape(earlier))).text
            whole = (await client.get(f"/runs/flow:many?w={WINDOW}")).text
    assert "No visit begins in these events." in words(last)
    assert shown(first) == ["items", "each"]
    unsaid, undrawn = map(int, re.findall(r"; item 6 [^;]+; (\d+) more; (\d+) not drawn", words(whole))[0])
    assert unsaid - undrawn == 40 - 6
