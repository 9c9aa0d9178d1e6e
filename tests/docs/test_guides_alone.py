"""What a guide says of the command line holds without a checkout, and is all that there is."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.interfaces.cli.findings import CHECKS
from steptrail.testing import ScriptedModel

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


@pytest.mark.parametrize("guide", ["workers", "a-fleet", "backing-up", "looking-after-a-store", "erasing-and-keeping"])
def test_no_command_of_an_operator_needs_a_checkout(guide: str) -> None:
    text = (GUIDES / f"{guide}.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if re.search(r"steptrail .*\bexamples/", line)] == []


def test_every_check_of_the_doctor_stands_in_the_guide() -> None:
    text = (GUIDES / "looking-after-a-store.md").read_text(encoding="utf-8")
    table = text.partition("| check | damage | attention |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)) == set(CHECKS)


def test_the_questions_about_large_bodies_find_one(tmp_path: Path) -> None:
    text = (GUIDES / "looking-after-a-store.md").read_text(encoding="utf-8")
    about, body = re.findall(r"^SELECT .*;$", text.partition("## Large bodies")[2], re.MULTILINE)[:2]
    agent = AgentBuilder("clerk").with_model(ScriptedModel(["Yes."])).build()
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        trail.run(agent, "Q" * 40_000)
    with closing(sqlite3.connect(tmp_path / "runs.db")) as shell:
        (preview,) = shell.execute(about.replace("position = 7", "type = 'execution.started.v1'")).fetchone()
        (digest,) = shell.execute("SELECT hex(digest) FROM blobs").fetchone()
        (whole,) = shell.execute(body.replace("6a0e...", digest.lower())).fetchone()
    assert preview.startswith('"QQQ')
    assert whole == f'"{"Q" * 40_000}"'
