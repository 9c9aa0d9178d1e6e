"""Scores on the page of a run, as far as they may be shown, and in the list of runs."""

from pathlib import Path
from typing import Literal

import httpx

from steptrail import Steptrail
from steptrail.inspector import Access, inspector
from tests.inspector.test_actions import ORIGIN
from tests.inspector.test_pages import words
from tests.views.kit import desk


async def test_a_page_shows_the_scores_and_a_masked_one_no_comment(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await trail.run(desk("hello", "again"), "hi", session="scored-1")
        await trail.session("scored-1").score("helpful", 0.5, by="ana", comment="Bob <b>again</b>")
        await trail.session("scored-1").score("tone", "rude words", by="ana")
        pages = dict[str, str]()
        shows: tuple[Literal["values", "shape"], ...] = ("values", "shape")
        for show in shows:
            app = inspector(trail, authorize=lambda _: Access(), show=show)
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as client:
                pages[show] = words((await client.get("/runs/scored-1")).text)
                pages["list"] = words((await client.get("/runs", params={"score": "helpful>=0.5"})).text)
                pages["empty"] = words((await client.get("/runs", params={"score": "helpful>0.5"})).text)
                pages["refused"] = words((await client.get("/runs", params={"score": ">1"})).text)
        assert "helpful = 0.5 by ana (Bob <b>again</b>)" in pages["values"]
        assert "helpful = 0.5 by ana" in pages["shape"]
        assert "tone = (text, 10 characters) by ana" in pages["shape"]
        assert "again" not in pages["shape"]
        assert "rude" not in pages["shape"]
        assert "scored-1" in pages["list"]
        assert "scored-1" not in pages["empty"]
        assert "is no condition on a score" in pages["refused"]
