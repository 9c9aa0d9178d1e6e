"""`why` says how often the failure of a run has come lately, where read models are kept, and is silent otherwise."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from steptrail import AgentBuilder, ContinuationCriteria, Steptrail, tool
from steptrail.continuation import CallableCriterion
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.python.explaining import explained
from steptrail.interfaces.python.failing_alike import with_same_failure
from steptrail.projections.same_failure import SameFailure
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import Reply, ScriptedModel, call
from steptrail.workflow import BuiltWorkflow, Envelope, Workflow

DAY = 86_400_000_000
Said = Callable[..., str]


@tool
def look_up(key: str) -> str:
    """Look a key up."""
    raise KeyError(key)


@tool
def burn(text: str) -> str:
    """Fail."""
    raise RuntimeError(text)


def desk(*script: Reply) -> Agent:
    return AgentBuilder("desk").with_model(ScriptedModel(script)).with_tools(look_up, burn).build()


def mailer() -> BuiltWorkflow:
    def send(envelope: Envelope) -> object:
        raise OSError(f"{envelope.input!r} has no mail box")

    return Workflow("mailer").function("send", send).build()


async def lose(trail: Steptrail, name: str) -> None:
    await trail.run(desk(call("look_up", key=f"key-{name}"), "no"), "Look it up", session=name)


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command and returns what it prints."""

    def run(url: str, *words: str) -> str:
        assert main([*words, "--store", url]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.acceptance("8.5-12")
async def test_a_failure_is_told_with_how_often_it_has_come_lately(store_url: str, said: Said) -> None:
    async with Steptrail.open(store_url) as trail:
        for name in ("a", "b"):
            await lose(trail, name)
        await trail.run(desk(call("burn", text="hot"), "no"), "Go", session="burnt")
        await trail.run(desk("Yes."), "Hi", session="fine")
        await trail.views.wait()
        await lose(trail, "c")  # nobody has counted it yet
        lost, burnt = (await trail.session("c").why()).same_failure, (await trail.session("burnt").why()).same_failure
        assert lost is not None
        assert burnt is not None
        assert (lost.runs, lost.is_more, lost.days, str(lost)) == (3, False, 7, "in 3 runs in the last 7 days")
        assert str(burnt) == "in 1 run in the last 7 days"
        assert (await trail.session("fine").why()).same_failure is None

        await trail.session("c").send(desk("no", "Found."), "And now?")
        assert (await trail.session("c").why()).same_failure is None
        assert (await trail.session("c").why(execution=1)).same_failure == lost

    printed = await asyncio.to_thread(said, store_url, "why", "a")
    command = f"steptrail runs --signature {lost.signature} --since 7d --store"
    assert f"the same    in 3 runs in the last 7 days: `{command}" in printed
    listed = await asyncio.to_thread(said, store_url, "runs", "--signature", lost.signature, "--since", "7d")
    assert [row.split()[0] for row in listed.splitlines()[1:]] == ["c", "b", "a"]
    data = json.loads(await asyncio.to_thread(said, store_url, "why", "a", "--json"))
    assert data["sameFailure"] == {"signature": lost.signature, "runs": 3, "isMore": False, "days": 7}


async def test_a_criterion_that_raised_inside_of_a_collection_is_the_failure_of_the_run(tmp_path: Path) -> None:
    def judge(_: object) -> bool:
        raise ArithmeticError("no such sum")

    judging = ContinuationCriteria(CallableCriterion(judge))
    agent = AgentBuilder("desk").with_model(ScriptedModel(["Done."])).with_criteria(judging).build()
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        result = await trail.run(agent, "Go", session="s")
        await trail.views.wait()
        (row,) = (await trail.views.runs()).rows
        why = await trail.session("s").why()
    assert result.error is not None
    assert (row.error_type, row.error_class) == (result.error.type, result.error.error_class)
    assert str(why.same_failure) == "in 1 run in the last 7 days"


async def test_a_run_of_a_workflow_is_told_with_the_others_too(tmp_path: Path, said: Said) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        for name in ("ana", "ben"):
            await trail.run(mailer(), name, session=name)
        await trail.views.wait()
    printed = await asyncio.to_thread(said, url, "why", "flow:ben")
    assert "the same    in 2 runs in the last 7 days: `steptrail runs --signature" in printed


async def test_a_failure_that_has_not_come_lately_says_so(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        await lose(trail, "a")
        await trail.views.wait()
        later = trail.clock.utc() + 8 * DAY
        found = await explained(trail.store, "agent:a", now=later)
        told: object = await with_same_failure(found, trail.store, "agent:a", later)  # type: ignore[type-var]
    assert str(told.same_failure) == "in no run in the last 7 days"  # type: ignore[attr-defined]
    assert str(SameFailure(signature="", runs=10_000, is_more=True)) == "in 10,000+ runs in the last 7 days"


async def test_without_read_models_it_is_not_told_and_none_are_made(tmp_path: Path, said: Said) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await lose(trail, "a")
        assert (await trail.session("a").why()).same_failure is None
    printed = await asyncio.to_thread(said, url, "why", "a")
    assert "KeyError" in printed
    assert "the same" not in printed
    assert [each.name for each in tmp_path.iterdir() if "views" in each.name] == []


async def test_read_models_that_cannot_be_read_cost_that_line_alone(tmp_path: Path, said: Said) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await lose(trail, "a")
        await trail.views.wait()
    for file in (tmp_path / "runs.db-views").iterdir():
        if file.is_file() and not file.is_symlink():
            file.write_bytes(b"this is no database" * 400)
    printed = await asyncio.to_thread(said, url, "why", "a")
    assert "KeyError" in printed
    assert "the same" not in printed
