"""The filters of the list of runs are chips, each of which leads to the list without it; none is passed over."""

import re
from html import unescape

import pytest

from tests.inspector.conftest import Opened
from tests.inspector.inspected import HOSTILE
from tests.inspector.test_pages import words

ALL = {
    "status": "failed",
    "stop_reason": "steps_limit",
    "waits_for": "approval",
    "agent": "desk",
    "since": "7d",
    "order": "most_retries",
    "tool": "look_up",
    "tag": "user=u7",
    "cost": "0.5",
    "steps": "3",
    "parent": "family",
    "tenant": "acme",
}


def chips(page: str) -> dict[str, str]:
    """Return where each chip leads, by what it says."""
    (part,) = re.findall(r'<ul class="chips" aria-label="Filters">(.*?)</ul>', page, re.S) or [""]
    return {
        unescape(said): unescape(place)
        for place, said in re.findall(r'<a href="([^"]*)" aria-label="Without the filter ([^"]*)">', part)
    }


@pytest.mark.acceptance("8.6-29")
async def test_each_filter_is_a_chip_that_leads_to_the_list_without_it(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs?agent=desk&status=failed&after=hostile")).text
        assert chips(page) == {"Status: failed": "/runs?agent=desk", "Agent or workflow: desk": "/runs?status=failed"}
        without = (await client.get(chips(page)["Status: failed"])).text
        assert chips(without) == {"Agent or workflow: desk": "/runs"}
        assert len(re.findall("data-row", without)) > len(re.findall("data-row", page))
        assert chips((await client.get("/runs")).text) == {}


async def test_every_filter_has_a_chip_and_is_kept_by_the_form(opened: Opened) -> None:
    async with opened() as client:
        page = (await client.get("/runs", params=ALL)).text
    found = chips(page)
    assert len(found) == len(ALL)
    assert found["Order: most retries"] == "/runs?" + "&".join(
        f"{key}={value.replace('=', '%3D')}" for key, value in ALL.items() if key != "order"
    )
    for key, value in ALL.items():
        assert re.search(rf'name="{key}" value="{value}"|<option value="{value}" selected>', page), key


async def test_a_filter_of_a_strange_value_is_a_text_that_can_be_taken_away(opened: Opened) -> None:
    async with opened() as client:
        answer = await client.get("/runs", params={"agent": HOSTILE[:190], "status": "zzz"})
    assert answer.status_code == 400
    assert answer.text.count("<script") == 2
    assert "<img" not in answer.text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", answer.text)
    assert chips(answer.text)["Status: zzz"].startswith("/runs?agent=%3Cscript")
    assert "This cannot be asked: no run has the status 'zzz': there are pending, in_progress," in words(answer.text)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("status=&agent=&since=&cost=", 200),
        ("agent=" + "x" * 201, 400),  # a list of all runs would be a lie
        ("agent=%00", 400),
        ("status=failed%00", 400),
        ("after=" + "x" * 300, 400),
        ("after=..%2F..%2Fetc", 400),
        ("cost=nan", 400),
        ("cost=inf", 400),
        ("cost=-1", 400),
        ("steps=1e300", 400),
        ("tokens=" + "9" * 100, 400),
        ("tokens=%D9%A3", 200),
        ("since=99999999d", 400),
        ("since=999999w", 200),
        ("since=30min", 200),
        ("since=0001-01-01T00:00:00%2B14:00", 200),
        ("until=9999-12-31T23:59:59-14:00", 200),
        ("tag=%3D", 200),
        ("order=", 200),
        ("order=<b>", 400),
        ("signature=..%2F..", 200),
        ("unknown=1", 200),
    ],
)
async def test_a_filter_that_no_run_can_have_is_not_passed_over(opened: Opened, query: str, status: int) -> None:
    async with opened() as client:
        assert (await client.get(f"/runs?{query}")).status_code == status


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("status=lost&tool=refund", "no run has the status 'lost': there are pending, "),
        ("stop_reason=bored", "no run has the stop_reason 'bored': there are completed, "),
        ("waits_for=tea", "no run has the waits_for 'tea': there are "),
        ("since=2026-02-31", "'2026-02-31' is not a time: 30min, 12h, 7d, 2w ago, or a date such as 2026-03-01 or "),
        ("cost=much", "Dollars, at least: 'much' is no number"),
        ("order=best", "there is no order 'best': there are newest, "),
        ("cost=much&steps=few", "Dollars, at least: 'much' is no number; Steps, at least: 'few' is no number"),
    ],
)
async def test_a_value_that_no_run_can_have_is_named_beside_the_form_that_still_has_it(
    opened: Opened, query: str, said: str
) -> None:
    async with opened() as client:
        answer = await client.get(f"/runs?{query}")
    assert answer.status_code == 400
    assert f"This cannot be asked: {said}" in words(answer.text)
    assert "No run is so." not in answer.text
    assert len(chips(answer.text)) == query.count("=")
    assert '<form class="filters"' in answer.text


@pytest.mark.parametrize("page", ["stats", "failures"])
async def test_a_time_that_is_none_is_named_on_the_pages_of_sums(opened: Opened, page: str) -> None:
    async with opened() as client:
        soon = await client.get(f"/{page}?since=2026-02-31")
        nul = await client.get(f"/{page}?agent=%00")
    assert (soon.status_code, nul.status_code) == (400, 400)
    assert "This cannot be asked: '2026-02-31' is not a time" in words(soon.text)
    assert '<option value="2026-02-31" selected>' in soon.text
    assert "since then" not in soon.text
    assert "steptrail views" not in soon.text
