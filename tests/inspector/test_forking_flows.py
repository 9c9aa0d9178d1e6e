"""A run of a workflow is forked from its page, and the pages of the two lead to each other."""

import httpx

from steptrail import Steptrail, ToolEffect
from steptrail.domain.flow.events import FlowForked
from steptrail.inspector import inspector
from steptrail.interfaces.http.inspector.graph import graph_of
from steptrail.workflow import RunOptions, Workflow
from tests.inspector.test_actions import ORIGIN, ana, buttons, forms, post
from tests.inspector.test_pages import words
from tests.runner.kit import trail_of


async def test_a_run_of_a_workflow_is_forked_from_its_page_which_says_where_it_can_be() -> None:
    async with trail_of() as trail:
        transport = httpx.ASGITransport(inspector(trail, authorize=ana))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            await forked(trail, client)


async def forked(trail: Steptrail, client: httpx.AsyncClient) -> None:
    paid = Workflow("paid").function("look", lambda _: 1).function("pay", lambda _: 2, effect=ToolEffect.UNSAFE)
    await trail.run(paid.chain("look", "pay").build(), session="paid")
    records = await trail.flow("paid").events()
    looked, done = (each.version for each in records if each.event.TYPE == "node.completed.v1")
    page = (await client.get("/runs/flow:paid")).text
    assert "fork" in buttons(page)
    assert "What was under way there begins anew" in words(page)
    form = forms(page)[-1]
    refused = await post(client, dict(form), do="fork", after=str(done - 1), reason="no")
    assert refused.status_code == 409
    assert f"fork after event {looked + 1}, before it began" in words(refused.text)
    clicks = [await post(client, dict(form), do="fork", after=str(looked), reason="another") for _ in range(2)]
    (where,) = {each.headers["location"] for each in clicks}
    fork, source = (await client.get(where)).text, (await client.get("/runs/flow:paid")).text
    assert f"A fork of flow:paid , after event {looked} of it." in words(fork)
    assert f'href="{where}"' in source
    assert "paused" in words(fork)
    name = where.rsplit("%3A")[-1]
    (begun,) = [record.event for record in await trail.flow(name).events()]
    assert isinstance(begun, FlowForked)
    assert (begun.source, begun.version, begun.by, begun.reason) == ("paid", looked, "inspector:ana", "another")


async def test_the_graph_on_the_page_of_a_fork_shows_as_untouched_what_begins_anew() -> None:
    flow = Workflow("t").function("look", lambda _: 1).human("ask", prompt="Well?").chain("look", "ask").build()
    async with trail_of() as trail:
        await trail.run(flow, session="f", options=RunOptions(longest_wait=0.0))
        await trail.flow("f").fork(session="g")
        graphs = [await graph_of(trail, stream, 99) for stream in ("flow:f", "flow:g")]
    marks = [[node.mark for node in graph.drawn.nodes] for graph in graphs if graph is not None]
    assert marks == [["ran", "waiting"], ["ran", "untouched"]]
