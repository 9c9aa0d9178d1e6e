"""anyio, on which Starlette and MCP servers stand, cancels a task again at each turn until it has left its scope.

So nothing that ends in there can wait for anything, unless it lets nobody cancel that.
"""

import threading
from collections.abc import Set

import anyio

from steptrail import AgentBuilder, Steptrail
from steptrail.testing import ScriptedModel


def threads_of_ours() -> Set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("steptrail-")}


async def test_a_trail_that_was_opened_in_a_scope_is_closed_where_that_is_cancelled(store_url: str) -> None:
    """A server that opens one for each request had its threads, files and connections for ever."""
    agent = AgentBuilder("a").with_model(ScriptedModel(["Done."])).build()
    before = threads_of_ours()
    with anyio.CancelScope() as scope:
        async with Steptrail.open(store_url) as trail:
            await trail.run(agent, "Go.", session="s")
            await trail.views.status()
            scope.cancel()
    assert threads_of_ours() <= before
