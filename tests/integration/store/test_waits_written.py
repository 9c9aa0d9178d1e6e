"""An answer writes its own wait in the index, however many others of the same run are open."""

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from steptrail import AgentBuilder, Steptrail, ToolEffect, tool
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import ScriptedModel, calls
from steptrail.tools import ApprovalRule
from tests.integration.store.kit import note_statements, url

QUESTIONS = 30


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def payer() -> Agent:
    asked = calls(*(("pay", {"cents": cents}) for cents in range(QUESTIONS)))
    return AgentBuilder("payer").with_model(ScriptedModel([asked, "Paid."])).with_tools(pay).build()


async def asking(trail: Steptrail) -> list[str]:
    """Run until all questions are open, and return their ids."""
    await trail.run(payer(), "Pay", session="s")
    return [each.id for each in await trail.inbox()]


async def test_an_answer_writes_one_wait_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, path = list[str](), tmp_path / "runs.db"
    note_statements(monkeypatch, said.append)
    async with Steptrail.open(url(path)) as trail:
        first, *_ = await asking(trail)
        said.clear()
        await trail.session("s").approve(first, by="ana")
    assert len([each for each in said if each.startswith("INSERT INTO waits")]) == 1
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, answered_at IS NOT NULL FROM waits").fetchall()
    assert len(rows) == QUESTIONS
    assert [name for name, is_answered in rows if is_answered] == [first]


async def test_an_answer_writes_one_wait_on_a_server(postgres_url: str) -> None:
    def rows() -> dict[str, tuple[str, bool]]:
        with psycopg.connect(postgres_url) as connection:
            found = connection.execute("SELECT id, xmin::text, answered_at IS NOT NULL FROM steptrail.waits")
            return {name: (written_by, is_answered) for name, written_by, is_answered in found}

    async with Steptrail.open(postgres_url) as trail:
        first, *_ = await asking(trail)
        before = rows()
        await trail.session("s").approve(first, by="ana")
        after = rows()
        assert before.keys() == after.keys()
        assert {name for name in after if after[name] != before[name]} == {first}
        assert [name for name, (_, is_answered) in after.items() if is_answered] == [first]
        assert (await trail.session("s").resume(payer())).status == "waiting"
