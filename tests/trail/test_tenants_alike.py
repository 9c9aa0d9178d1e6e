"""What metadata names as the tenant is the same one in the views, in the inspector and in the limits of a worker."""

from hashlib import sha256
from typing import Any

import pytest

from steptrail import AgentBuilder, HookType, Steptrail, tool
from steptrail.errors import ConfigurationError
from steptrail.hooks import CallableHook
from steptrail.testing import ScriptedModel, call, say


@pytest.mark.parametrize(
    ("given", "tenant"),
    [("acme", "acme"), (7, "7"), (-(10**20), f"-{10**20}"), (2.5, "2.5"), (True, "true"), (["acme"], None), ({}, None)],
)
async def test_a_tenant_is_the_same_wherever_it_is_looked_up(given: Any, tenant: str | None) -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "hi", session="a", metadata={"tenant": given})
        (row,) = await trail.runs()
        assert row.tenant == tenant
        (found,) = (await trail.views.sql("SELECT tenant FROM executions")).rows
        assert found == (tenant or "",)
        if tenant is not None:
            assert len((await trail.views.of(tenant).runs()).rows) == 1


async def test_a_long_tenant_stands_in_the_views_and_in_the_list_of_runs_as_the_page_says() -> None:
    agent, tenant = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build(), "t" * 65
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "hi", session="a", metadata={"tenant": tenant})
        (found,) = (await trail.views.sql("SELECT tenant FROM executions")).rows
        assert found == (f"{'t' * 64}…{sha256(tenant.encode()).hexdigest()}",)
        assert [row.tenant for row in await trail.runs()] == [*found]
        assert len((await trail.views.of(tenant).runs()).rows) == 1


async def test_a_tenant_that_a_hook_changes_while_a_run_is_at_work_is_listed_at_once(store_url: str) -> None:
    listed = list[str | None]()

    @tool
    async def look() -> str:
        """Look at the list of runs."""
        listed.extend([row.tenant for row in await trail.runs()])
        return "seen"

    builder = AgentBuilder("desk").with_model(ScriptedModel([call("look"), say("Done.")])).with_tools(look)
    moves = CallableHook(lambda state: state.with_metadata("tenant", "umbrella"), "moves")
    async with Steptrail.open(store_url) as trail:
        agent = builder.with_hook(HookType.PRE_TOOL_USE, moves).build()
        await trail.run(agent, "hi", session="a", metadata={"tenant": "acme"})
    assert listed == ["umbrella"]


async def test_a_chat_has_a_tenant_however_it_was_begun_and_the_inbox_shows_each_tenant_its_own() -> None:
    @tool(approval=True)
    def refund(cents: int) -> str:
        """Pay money back."""
        return "paid"

    asks = ScriptedModel([call("refund", cents=3)] * 9)
    agent = AgentBuilder("desk").with_model(asks).with_tools(refund).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.session("sent").send(agent, "hi", metadata={"tenant": "acme"})
        await trail.session("posted").post(agent, "hi", metadata={"tenant": "acme"})
        await trail.session("posted").resume(agent)
        async with trail.session("shown").stream(agent, "hi", metadata={"tenant": "umbrella"}) as stream:
            await stream.result()
        await trail.session("nobody").send(agent, "hi")
        asked = {tenant: await trail.inbox(tenant=tenant) for tenant in ("acme", "umbrella", "other")}
        (newest,) = await trail.inbox(tenant="acme", limit=1)
        listed = await trail.views.of("acme").runs()
        with pytest.raises(ConfigurationError, match="a tenant has a name"):
            await trail.inbox(tenant="")
        assert len(await trail.inbox()) == 4
    found = {tenant: [each.stream for each in questions] for tenant, questions in asked.items()}
    assert found == {"acme": ["agent:posted", "agent:sent"], "umbrella": ["agent:shown"], "other": []}
    assert newest.stream == "agent:posted"
    assert {row.stream for row in listed.rows} == {"agent:sent", "agent:posted"}
