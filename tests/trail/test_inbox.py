"""The inbox shows exactly what people are asked, and the commands that it shows answer it."""

import asyncio
import json
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from steptrail import Steptrail, ToolEffect, tool
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.shared.run import ExecutionStatus
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.tools import ApprovalRule, OnUnknown
from steptrail.infrastructure.store import open_store
from steptrail.infrastructure.store.core.event_store import RecorderEventStore
from steptrail.interfaces.cli.main import main
from steptrail.runtime.kernel.environment import Environment
from steptrail.testing import call
from tests.runner.kit import Crash, agent_of, crash_at
from tests.trail.test_due import Shifted

ran: list[int] = []


@tool(effect=ToolEffect.KEYED, approval=ApprovalRule(expires=3600, reason="it moves money"))
def pay(amount: int) -> str:
    """Pay."""
    ran.append(amount)
    return f"paid {amount}"


@tool(on_unknown=OnUnknown.PARK)
def charge(amount: int) -> str:
    """Charge the card."""
    return f"charged {amount}"


@tool(approval=ApprovalRule())
def lend(amount: int) -> str:
    """Lend."""
    return f"lent {amount}"


PATIENT = agent_of([call("lend", amount=30), "Lent."]).with_tools(lend).build()
AGENT = agent_of([call("pay", amount=30), "Paid."]).with_tools(pay).build()
PARKING = agent_of([call("charge", amount=5), "Charged."]).with_tools(charge).build()


async def died_in_a_charge(url: str, session: str) -> None:
    async with Steptrail(Environment(store=open_store(url), reach=crash_at("before-tool"))) as dying:
        with pytest.raises(Crash):
            await dying.run(PARKING, "charge", session=session)
    async with Steptrail.open(url) as trail:
        await trail.session(session).resume(PARKING)


async def test_an_approval_is_asked_with_all_that_it_is_about_until_it_is_answered(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        await trail.run(agent_of(["hello"]).build(), "hi", session="quiet")
        await trail.run(AGENT, "pay", session="s")
        (asked,) = await other.inbox()
        approval = (await trail.session("s").state()).open_approvals[0]
        assert (asked.kind, asked.stream, asked.agent, asked.id) == ("approval", "agent:s", "calc", approval.id)
        assert (asked.tool, asked.arguments, asked.digest) == ("pay", {"amount": 30}, approval.digest)
        assert (asked.asked_by, asked.reason, asked.expires_at) == ("pay", "it moves money", approval.expires_at)
        assert asked.expires_at is not None
        assert asked.expires_at - asked.asked_at == timedelta(hours=1)
        assert datetime.now(UTC) - asked.asked_at < timedelta(hours=1)
        await other.session("s").pause(by="ana")
        assert len(await other.inbox()) == 1
        await other.session("s").approve(asked.id, by="ana", digest=asked.digest)
        assert list(await trail.inbox()) == []


async def test_a_call_of_unknown_outcome_is_asked_about_once_it_is_parked(store_url: str) -> None:
    await died_in_a_charge(store_url, "s")
    async with Steptrail.open(store_url) as trail:
        (asked,) = await trail.inbox()
        assert (asked.kind, asked.id, asked.tool, asked.arguments) == (
            "unknown_outcome",
            "s:1:1:0",
            "charge",
            {"amount": 5},
        )
        assert asked.expires_at is None
        await trail.session("s").settle(asked.id, "completed", by="ana", result="charged")
        assert list(await trail.inbox()) == []


async def test_the_inbox_comes_in_pages_and_leaves_out_a_session_that_cannot_be_read(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        for number in range(5):
            await trail.run(AGENT, "pay", session=f"s{number}")
        first = await trail.inbox(limit=2)
        assert [each.stream for each in first] == ["agent:s4", "agent:s3"]
        assert [each.stream for each in await trail.inbox(limit=9, after="s3")] == ["agent:s2", "agent:s1", "agent:s0"]


async def test_a_question_that_has_expired_is_asked_no_more(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index, looks = RecorderEventStore.index, list[Sequence[RunSummary]]()

    async def noted(store: RecorderEventStore, asked: IndexQuery) -> Sequence[RunSummary]:
        looks.append(await index(store, asked))
        return looks[-1]

    async with Steptrail.open(store_url) as trail:
        await trail.run(AGENT, "pay", session="s")
        assert len(await trail.inbox()) == 1
    async with Steptrail(Environment(store=open_store(store_url), clock=Shifted(hours=1.1))) as later:
        assert list(await later.inbox()) == []
        assert [row.session_id for row in await later.due()] == ["s"]
    async with Steptrail.open(store_url) as trail:
        await trail.run(PATIENT, "lend", session="before")
        for number in range(3):
            await trail.run(AGENT, "pay", session=f"s{number}")
    async with Steptrail(Environment(store=open_store(store_url), clock=Shifted(hours=1.1))) as later:
        monkeypatch.setattr(RecorderEventStore, "index", noted)
        # What is asked no more takes nobody's place in a page.
        assert [each.stream for each in await later.inbox(limit=1)] == ["agent:before"]
        assert [each.stream for each in await later.inbox(limit=2)] == ["agent:before"]
        # The index leaves it out: otherwise one who asks for few has it look again and again where many have expired.
        assert [len(rows) for rows in looks] == [1, 1]


def test_the_commands_that_the_inbox_prints_answer_as_they_are_typed(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def asks() -> None:
        async with Steptrail.open(store_url) as trail:
            for session in ("yes", "no", "-odd"):
                await trail.run(AGENT, "pay", session=session)
        await died_in_a_charge(store_url, "parked")

    def said(*arguments: str) -> str:
        assert main(["--store", store_url, *arguments]) == 0
        return capsys.readouterr().out

    asyncio.run(asks())
    told = said("inbox")
    assert 'yes (calc) asks to run pay {"amount":30}' in told
    assert "because it moves money" in told
    listed = {each["stream"]: each for each in json.loads(said("inbox", "--json"))}
    assert set(listed) == {"agent:yes", "agent:no", "agent:-odd", "agent:parked"}
    for session, way in (("yes", 0), ("-odd", 0), ("no", 1), ("parked", 3)):
        command = listed[f"agent:{session}"]["answers"][way]
        assert command in told
        program, *typed = shlex.split(command.replace("WHO", "ana"))
        assert program == "steptrail"
        assert main(typed if "--store" in typed else ["--store", store_url, *typed]) == 0
        capsys.readouterr()
    assert json.loads(said("inbox", "--json")) == []
    assert main(["--store", store_url, "inbox"]) == 0
    assert capsys.readouterr() == ("", "steptrail: nobody is asked anything\n")

    async def ends() -> list[str]:
        async with Steptrail.open(store_url) as trail:
            ids = sorted(row.session_id for row in await trail.due())
            for name in ("yes", "no"):
                assert (await trail.session(name).resume(AGENT)).status is ExecutionStatus.COMPLETED
            return ids

    ran.clear()
    assert sorted(row["sessionId"] for row in json.loads(said("due", "--json"))) == [
        "-odd",
        "no",
        "parked",
        "yes",
    ]
    assert asyncio.run(ends()) == ["-odd", "no", "parked", "yes"]
    assert ran == [30]


def test_the_command_asks_for_one_tenant_and_so_does_the_command_for_the_next_page(
    store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Steptrail.open_sync(store_url) as trail:
        for tenant, session in (("acme", "a1"), ("acme", "a2"), ("umbrella", "u1")):
            trail.run(PATIENT, "lend", session=session, metadata={"tenant": tenant})
    assert main(["--store", store_url, "inbox", "--tenant", "acme", "--limit", "1"]) == 0
    shown = capsys.readouterr()
    assert "a2" in shown.out
    assert "u1" not in shown.out
    *_, following, _ = shown.err.split("`")
    assert main(shlex.split(following)[1:]) == 0
    shown = capsys.readouterr()
    assert "a1" in shown.out
    assert "u1" not in shown.out
    assert main(["--store", store_url, "inbox", "--tenant", ""]) == 2
