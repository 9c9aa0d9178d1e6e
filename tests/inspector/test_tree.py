"""The tree of a run: what each run of it has used itself, and what with all below it."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from steptrail import Agent, AgentBuilder, Steptrail
from steptrail.domain.prices import PriceTable
from steptrail.domain.shared.summary import RunSummary
from steptrail.domain.usage import Usage
from steptrail.inspector import inspector
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.http.inspector import lists
from steptrail.interfaces.http.inspector.counting import CountedAnswer, Counting
from steptrail.interfaces.http.inspector.tree_bill import RunBill, way_down
from steptrail.testing import Reply, ScriptedModel, calls, say
from steptrail.tools import SubagentTool
from steptrail.workflow import RunOptions, Workflow
from tests.inspector.conftest import everything
from tests.inspector.test_pages import words

PRICES = PriceTable.of({"scripted": {"input": "10", "output": "10"}}, version="test")


def agent(name: str, *script: Reply, below: Agent | None = None, prices: PriceTable | None = PRICES) -> Agent:
    made = AgentBuilder(name).with_model(ScriptedModel(script))
    if below is not None:
        made = made.with_tools(SubagentTool(below))
    return (made if prices is None else made.with_prices(prices)).build()


def team(prices: PriceTable | None = PRICES) -> Agent:
    """Return an agent with another below it, twice, and one more below that."""
    use = Usage(input=100)
    mailer = agent("mailer", *[say("Sent.", usage=use)] * 9, prices=prices)
    asks = calls(("mailer", {"prompt": "write"}), usage=use)
    checker = agent("checker", asks, say("Checked.", usage=use), asks, say("Checked.", usage=use), below=mailer)
    both = calls(("checker", {"prompt": "one"}), ("checker", {"prompt": "two"}), usage=use)
    return agent("desk", *[both, say("Done.", usage=use)] * 2, below=checker)


@pytest.fixture
async def trail(tmp_path: Path) -> AsyncGenerator[Steptrail]:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as opened:
        yield opened


def browsing(trail: Steptrail) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(inspector(trail, authorize=everything))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8400")


def tree_of(page: str) -> list[str]:
    (part,) = re.findall(r'<h2 id="tree".*?</section>', page, re.S)
    return [words(f"<main>{each}")[2:] for each in re.findall(r"<p>.*?</p>|<li .*?</li>", part, re.S)]


@pytest.mark.acceptance("8.6-32")
async def test_a_tree_says_what_each_run_used_itself_and_with_all_below_it(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(team(), "Do it", session="top")
        await trail.views.wait()
        tree = await trail.tree("top")
        async with browsing(trail) as client:
            page = (await client.get("/runs/top")).text
            below = re.findall(r'href="/runs/(child-\w+)" data-row>', page)
            middle = (await client.get(f"/runs/{below[0]}")).text
            alone = (await client.get(f"/runs/{below[1]}")).text
    assert tree.usage.total == 800
    assert "tree: desk \u203a checker \u203a mailer, 800 tokens, $0.008" in words(page)
    said = tree_of(page)
    assert said[0] == "desk, this run: 200 tokens, $0.002; with all below it 800 tokens, $0.008."
    for each, (_, run) in zip(said[1:], list(tree.walk())[1:], strict=True):
        whole = f"; with all below it {run.usage.total} tokens" if run.children else ""
        assert f"active, {run.own_usage.total} tokens, $0.00" in each
        assert whole in each
        assert ("with all below it" in each) is bool(run.children)
    assert "tree: checker \u203a mailer, 300 tokens, $0.003" in words(middle)
    assert 'id="tree"' not in alone


async def test_all_executions_of_a_run_are_in_its_bill(trail: Steptrail) -> None:
    for said in ("Do it", "Do it again"):
        await trail.run(team(), said, session="top")
    await trail.views.wait()
    async with browsing(trail) as client:
        bill = tree_of((await client.get("/runs/top/1")).text)[0]
    assert bill.startswith("desk, this run: 400 tokens, $0.004; with all below it 1,600 tokens, $0.016.")
    assert "those of all executions" in bill


async def test_a_run_without_a_price_makes_the_cost_a_lower_bound(trail: Steptrail) -> None:
    await trail.run(team(prices=None), "Do it", session="top")
    await trail.views.wait()
    async with browsing(trail) as client:
        said = tree_of((await client.get("/runs/top")).text)
    assert "with all below it 800 tokens, at least $0.006." in said[0]
    assert str(RunBill(tokens=1)) == "1 token"
    assert str(RunBill(1_234, 0.5, is_least=True, is_unpriced=True)) == "at least 1,234 tokens, at least $0.50"


async def test_what_is_not_counted_yet_is_said_and_the_page_is_another_when_it_is(
    trail: Steptrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trail.run(team(), "Do it", session="top")
    await trail.views.wait()
    ask = Counting.ask

    async def late(self: Counting, *given: Any, **more: Any) -> CountedAnswer[Any]:
        return (await ask(self, *given, **more))._replace(answer=None, percent=40)

    async def halfway(self: Counting, *given: Any, **more: Any) -> CountedAnswer[Any]:
        found: CountedAnswer[Any] = await ask(self, *given, **more)
        assert found.answer is not None
        return found._replace(answer=[row for row in found.answer if row[0] == "agent:top"], percent=40)

    async with browsing(trail) as client:
        monkeypatch.setattr(Counting, "ask", late)
        before = await client.get("/runs/top")
        monkeypatch.setattr(Counting, "ask", halfway)
        half = await client.get("/runs/top", headers={"if-none-match": before.headers["etag"]})
        monkeypatch.setattr(Counting, "ask", ask)
        after = await client.get("/runs/top", headers={"if-none-match": half.headers["etag"]})
    assert tree_of(before.text)[0] == "desk, this run: not counted yet."
    assert tree_of(half.text)[0] == (
        "desk, this run: 200 tokens, $0.002; with all below it at least 200 tokens, $0.002. Counted to 40 % of the log."
    )
    assert "800 tokens" in tree_of(after.text)[0]


async def test_of_a_large_tree_a_part_is_shown_and_its_bill_is_a_lower_bound(
    trail: Steptrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trail.run(team(), "Do it", session="top")
    await trail.views.wait()
    monkeypatch.setattr(lists, "_BELOW", 2)
    async with browsing(trail) as client:
        said = tree_of((await client.get("/runs/top")).text)
    assert "at least 600 tokens, $0.006." in said[0]
    assert said[0].endswith("These are the first 2; there may be more.")
    assert len(said) == 3


def test_the_way_down_has_a_name_once_at_each_depth() -> None:
    def run(name: str) -> RunSummary:
        return RunSummary(kind="agent", session_id="x", name=name)

    below = [(depth, run(name)) for depth, name in ((1, "b"), (2, "z"), (1, "b"), (1, "c"), (1, "d"), (1, "e"))]
    assert way_down(run("a"), below) == "a \u203a b, c, d and 1 more \u203a z"


def unpriced() -> Agent:
    """Return an agent of a model that is in no table."""
    return AgentBuilder("free").with_model(ScriptedModel([say("So.", usage=Usage(input=500))] * 9, name="free")).build()


async def test_a_workflow_is_not_billed_again_for_the_agents_below_it(trail: Steptrail) -> None:
    flow = Workflow("w").agent("a", unpriced(), prompt="go").agent("b", unpriced(), prompt="go").chain("a", "b").build()
    await trail.run(flow, session="f")
    tree = await trail.tree("flow:f")
    assert [(run.own_usage.total, run.usage.total) for _, run in tree.walk()] == [(0, 1_000), (500, 500), (500, 500)]


@pytest.mark.parametrize("in_a_workflow", [True, False])
async def test_a_cost_that_leaves_out_what_has_no_price_says_so_wherever_it_is_shown(
    trail: Steptrail, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_a_workflow: bool
) -> None:
    use = Usage(input=100)
    script: list[Reply] = [calls(("free", {"prompt": "go"}), usage=use), say("Done.", usage=use)]
    if in_a_workflow:
        flow = Workflow("desk").agent("a", agent("priced", say("So.", usage=use), prices=None), prompt="go")
        flow = flow.agent("b", unpriced(), prompt="go").chain("a", "b")
        await trail.run(flow.build(), session="top", options=RunOptions(prices=PRICES))
    else:
        await trail.run(agent("desk", *script, below=unpriced()), "Do it", session="top")
        await trail.run(agent("desk", say("So.", usage=use), prices=None), "Do it", session="unpriced")
    await trail.views.wait()
    name = "flow:top" if in_a_workflow else "top"
    async with browsing(trail) as client:
        page = words((await client.get(f"/runs/{name}")).text)
        sums = words((await client.get("/stats")).text)
    least = r"at least \$0.00[12]"
    assert re.search(rf"spent [^.]* tokens, {least}", page)
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    shown = dict[str, str]()
    for command in (["why", name], ["show", name], ["runs"], ["stats", "--by", "agent"]):
        await asyncio.to_thread(main, [*command, "--store", store])
        shown[command[0]] = capsys.readouterr().out
    assert all("at least 0.00" in shown[each] for each in ("why", "show", "runs"))
    if not in_a_workflow:
        assert re.search(r"cost at least \$0.002 without 2 of no price", sums)
        assert re.search(r"\bdesk 2 .* at least \$0.002", sums)
        assert re.search(r"desk .* at least \$0.001 ", shown["stats"])


async def test_a_run_with_nothing_below_it_is_told_one_sum_and_a_list_says_dollars_as_all_pages_do(
    trail: Steptrail,
) -> None:
    use = Usage(input=100)
    script: list[Reply] = [calls(("free", {"prompt": "go"}), usage=use), say("Done.", usage=use)]
    await trail.run(agent("desk", *script, below=unpriced()), "Do it", session="top")
    await trail.views.wait()
    async with browsing(trail) as client:
        (_, leaf) = tree_of((await client.get("/runs/top")).text)
        listed = words((await client.get("/runs")).text)
    assert leaf.endswith("active, 500 tokens")
    assert "at least $0.002 " in listed
    assert "USD" not in listed
