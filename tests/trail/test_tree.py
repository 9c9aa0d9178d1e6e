"""The tree of a session: who ran what below it, where each of them stands, and what it was billed."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.errors import SessionNotFound
from steptrail.domain.shared.parent import ParentRef, session_for_call
from steptrail.domain.usage import Usage
from steptrail.hooks import Critique, SelfCritic
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import Reply, ScriptedModel, call, calls
from steptrail.tools import SubagentTool

ONE = Usage(input=10, output=5)


def scripted(name: str, *script: Reply) -> AgentBuilder:
    return AgentBuilder(name).with_model(ScriptedModel(script))


def critic(task: str, answer: str) -> Critique:
    return Critique(approved=True, usage=Usage(reasoning=1))


def family() -> Agent:
    inner = scripted("inner", "Found.").with_capability(SelfCritic(critic)).build()
    outer = scripted("outer", call("inner", prompt="find"), "Outer.").with_tools(SubagentTool(inner)).build()
    wanted = calls(("outer", {"prompt": "go"}), ("inner", {"prompt": "go"}))
    return scripted("top", wanted, "Done.").with_tools(SubagentTool(outer), SubagentTool(inner)).build()


async def stored(trail: Steptrail) -> None:
    await trail.run(family(), "go", session="s")
    await trail.run(scripted("other", "Alone.").build(), "go", session="alone")


async def test_every_session_below_stands_under_the_one_whose_call_it_was_with_its_bill() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await stored(trail)
        tree = await trail.tree("s")
        judged = Usage(input=10, output=5, reasoning=1)
        rows = [(depth, each.run.name, each.run.stop_reason, each.own_usage, each.usage) for depth, each in tree.walk()]
        by_name = {(depth, name): rest for depth, name, *rest in rows}
        assert by_name == {
            (0, "top"): ["completed", ONE + ONE, ONE + ONE + ONE + ONE + judged + judged],
            (1, "outer"): ["completed", ONE + ONE, ONE + ONE + judged],
            (1, "inner"): ["completed", judged, judged],
            (2, "inner"): ["completed", judged, judged],
        }
        assert tree.usage == (await trail.session("s").state()).total_usage
        below = await trail.tree(session_for_call("s:1:1:0"))
        assert [each.run.name for _, each in below.walk()] == ["outer", "inner"]
        assert [each.run.name for _, each in (await trail.tree("alone")).walk()] == ["other"]


async def test_a_tree_that_is_wide_is_looked_through_once_and_one_that_leads_back_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent, looks = scripted("kid", "Done.").build(), list[ParentRef]()

    def counted(above: ParentRef) -> str:
        looks.append(above)
        return f"{above.kind}:{above.session}"

    async with Steptrail.open("sqlite:///:memory:") as trail:
        for number in range(50):
            above = ParentRef(kind="agent", session="s", execution="s:1", effect=f"s:1:1:{number}")
            await trail.run(agent, "go", session=f"kid-{number}", parent=above)
        back = ParentRef(kind="agent", session="kid-0", execution="kid-0:1", effect="kid-0:1:1:0")
        await trail.run(agent, "go", session="s", parent=back)
        monkeypatch.setattr(ParentRef, "stream", property(counted))
        tree = await trail.tree("s")
    assert [each.run.session_id for each in tree.children] == [f"kid-{number}" for number in range(50)]
    assert len(looks) < 250


def test_a_session_that_is_not_there_has_no_tree() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail, pytest.raises(SessionNotFound):
        trail.tree("nobody")


def test_the_blocking_twin_sees_the_same_tree() -> None:
    with Steptrail.open_sync("sqlite:///:memory:") as trail:
        trail.run(family(), "go", session="s")
        assert len(list(trail.tree("s").walk())) == 4


async def test_a_damaged_record_is_told_of_its_own_session_and_of_no_other_tree(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await stored(trail)
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as hand:
        hand.execute(
            "UPDATE events SET state = '{' WHERE stream = (SELECT number FROM streams WHERE id = 'agent:alone') "
            "AND type = (SELECT number FROM types WHERE name = 'inference.completed.v1')"
        )
    async with Steptrail.open(url) as trail:
        assert (await trail.tree("s")).run.damage is None
        assert (await trail.tree("alone")).run.damage is not None
