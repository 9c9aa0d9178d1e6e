"""What metadata names as the tenant is the same one in the views, in the inspector and in the limits of a worker."""

from hashlib import sha256
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.interfaces.python.tenants import tenant_of
from steptrail.testing import ScriptedModel, say


@pytest.mark.parametrize(
    ("given", "tenant"),
    [("acme", "acme"), (7, "7"), (-(10**20), f"-{10**20}"), (2.5, "2.5"), (True, "true"), (["acme"], None), ({}, None)],
)
async def test_a_tenant_is_the_same_wherever_it_is_looked_up(given: Any, tenant: str | None) -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build()
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "hi", session="a", metadata={"tenant": given})
        (row,) = await trail.runs()
        assert await tenant_of(trail.store, row) == tenant
        (found,) = (await trail.views.sql("SELECT tenant FROM executions")).rows
        assert found == (tenant or "",)
        if tenant is not None:
            assert len((await trail.views.of(tenant).runs()).rows) == 1


async def test_a_long_tenant_stands_in_the_views_as_the_page_says() -> None:
    agent, tenant = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build(), "t" * 65
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent, "hi", session="a", metadata={"tenant": tenant})
        (found,) = (await trail.views.sql("SELECT tenant FROM executions")).rows
        assert found == (f"{'t' * 64}…{sha256(tenant.encode()).hexdigest()}",)
        assert len((await trail.views.of(tenant).runs()).rows) == 1
