"""`trail.views`, its blocking twin and the commands, over the read models of runs."""

import asyncio
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from steptrail import AgentBuilder, Steptrail, tool
from steptrail.domain.agent.events import StepCompleted
from steptrail.domain.errors import ConfigurationError, QueryRefused
from steptrail.domain.inference import ModelReply
from steptrail.domain.json_value import JsonValue
from steptrail.domain.prices import PriceTable
from steptrail.infrastructure.views.views import Views
from steptrail.interfaces.cli.main import main
from steptrail.interfaces.python.views import TrailViews
from steptrail.projections.runs_view.view import RunsView
from steptrail.runtime.agent.agent import Agent
from steptrail.runtime.kernel.log_reader import watch_log
from steptrail.testing import ManualClock, ScriptedModel, call, say
from steptrail.workflow import FlowTool, Workflow

STATUSES = "SELECT stream, status FROM executions ORDER BY execution"


class Question(BaseModel):
    prompt: str


@tool
def look() -> str:
    """Look."""
    return "seen"


def agent(*replies: str) -> Agent:
    return AgentBuilder("desk").with_model(ScriptedModel([say(reply) for reply in replies])).build()


@pytest.mark.acceptance("8.1-1")
async def test_what_was_stored_before_the_question_is_in_the_answer(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent("hello"), "hi", session="a")
        answer = await trail.views.sql(STATUSES)
        assert answer.rows == [("agent:a", "completed")]
        assert (answer.lag, answer.as_of) == (0, await trail.store.last_position())
        await trail.run(agent("hello"), "hi", session="b")
        assert len((await trail.views.sql(STATUSES, fresh=None)).rows) == 1
        assert await trail.views.lag() > 0
        assert len((await trail.views.sql(STATUSES, fresh=3600.0)).rows) == 1
        assert len((await trail.views.sql(STATUSES, fresh=0.0)).rows) == 2
        (status,) = await trail.views.status()
        assert (status.name, status.version) == (RunsView.name, RunsView.version)
        assert (status.generation, status.lag, status.error) == (1, 0, None)
        assert await trail.views.rebuild() == 2
        assert len((await trail.views.sql(STATUSES, fresh=None)).rows) == 2


async def test_what_a_machine_with_a_fast_clock_has_counted_does_not_pass_for_newer_than_now(store_url: str) -> None:
    now = datetime(2027, 1, 15, 8, tzinfo=UTC)
    async with Steptrail.open(store_url, clock=ManualClock(now + timedelta(minutes=10))) as trail:
        await trail.run(agent("hello"), "hi", session="a")
        assert len((await trail.views.sql(STATUSES)).rows) == 1
    async with Steptrail.open(store_url, clock=ManualClock(now)) as trail:
        await trail.run(agent("hello"), "hi", session="b")
        assert len((await trail.views.sql(STATUSES, fresh=5.0)).rows) == 2


async def test_a_fork_has_the_tenant_the_tags_the_model_and_the_prices_of_its_past(store_url: str) -> None:
    prices = PriceTable.of({"large": {"input": 3, "output": 15}}, version="1")

    def priced(*replies: ModelReply) -> Agent:
        model = ScriptedModel(list(replies), name="large")
        return AgentBuilder("desk").with_model(model).with_tools(look).with_prices(prices).build()

    async with Steptrail.open(store_url) as trail:
        about: dict[str, JsonValue] = {"tenant": "acme", "tags": {"user": "u7"}}
        await trail.run(priced(call("look"), say("Done.")), "go", session="s", metadata=about)
        step = next(each for each in await trail.session("s").history() if isinstance(each.event, StepCompleted))
        fork = await trail.session("s").fork(at=step.version, session="f", metadata={"tags": {"arm": "b"}})
        await fork.fork(session="g")
        for name in ("f", "g"):
            await trail.session(name).resume(priced(call("look"), say("Done.")))
        counted = await trail.views.sql(
            "SELECT stream, tenant, model, steps, cost_usd, is_unpriced, fingerprint IS NOT NULL "
            "FROM executions ORDER BY execution"
        )
        one = (await trail.session("s").state()).steps[0].usage
        usd = float(prices.models["large"].picodollars(one)) / 1e12
        assert [tuple(row) for row in counted.rows] == [
            ("agent:s", "acme", "large", 2, 2 * usd, False, True),
            ("agent:f", "acme", "large", 1, usd, False, True),
            ("agent:g", "acme", "large", 1, usd, False, True),
        ]
        sums = await trail.views.sql("SELECT sum(calls), sum(cost_usd), sum(unpriced_calls) FROM models_daily")
        assert [float(str(each)) for each in sums.rows[0]] == [4, 4 * usd, 0]
        tags = await trail.views.sql("SELECT name, value FROM tags ORDER BY execution")
        assert [tuple(row) for row in tags.rows] == [("user", "u7"), ("arm", "b"), ("arm", "b")]
        assert len((await trail.views.of("acme").runs()).rows) == 3


async def test_the_runs_below_a_run_are_of_its_tenant_and_in_its_sums(store_url: str) -> None:
    above = AgentBuilder("top").with_model(ScriptedModel([call("below", prompt="go"), say("Done.")]))
    below = Workflow("inner").agent("a", agent("found"), prompt="go").build()
    tool = FlowTool(below, name="below", description="Look.", parameters=Question)
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent("hello"), "hi", session="another", metadata={"tenant": "other"})
        await trail.run(above.with_tools(tool).build(), "go", session="s", metadata={"tenant": "acme", "note": "x"})
        every = [row.stream for row in await trail.runs() if row.stream != "agent:another"]
        mine = await trail.views.of("acme").runs()
        assert sorted(run.stream for run in mine.rows) == sorted(every)
        assert len(every) == 3
        tenants = await trail.views.sql("SELECT tenant, sum(runs) FROM runs_daily GROUP BY tenant ORDER BY tenant")
        assert tenants.rows == [("acme", 3), ("other", 1)]
        assert (await trail.session("s").state()).metadata == {"tenant": "acme", "note": "x"}
        inner = next(stream for stream in every if stream.startswith("flow:"))
        assert (await trail.flow(inner.removeprefix("flow:")).state()).metadata == {"tenant": "acme"}


async def test_events_are_counted_as_they_come_while_the_views_are_kept_going(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail, trail.views.kept_going():
        await trail.run(agent("hello"), "hi", session="a")
        await trail.views.wait(timeout=60)
        assert (await trail.views.sql(STATUSES, fresh=None)).rows == [("agent:a", "completed")]


def _set(event: asyncio.Event, _: object) -> None:
    event.set()


async def test_a_block_that_is_left_while_what_was_stored_is_told_of_ends(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        for turns in range(8):
            grown = asyncio.Event()
            async with asyncio.timeout(30), trail.views.kept_going():
                await trail.views.wait(timeout=30)
                watch = watch_log(trail.store, partial(_set, grown), lambda _: None)
                await trail.start(agent("hello"), "hi", session=f"s{turns}")
                await grown.wait()
                for _ in range(turns):
                    await asyncio.sleep(0)
                watch.leave()


async def test_instants_and_durations_are_those_that_people_read(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent("hello"), "hi", session="a")
        answer = await trail.views.sql("SELECT started_at, active_seconds FROM executions")
        at, active = answer.rows[0]
        assert str(at).startswith("20")
        assert isinstance(active, float)


async def test_a_question_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    async with Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        with pytest.raises(QueryRefused, match="no such table: nowhere"):
            await trail.views.sql("SELECT * FROM nowhere")
        with pytest.raises(ConfigurationError):
            await trail.views.sql("SELECT 1", timeout=0)
        assert (await trail.views.sql("SELECT $1, $2", "a", 1)).rows == [("a", 1)]


async def test_views_of_a_store_in_memory_are_gone_with_it() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent("hello"), "hi", session="a")
        assert (await trail.views.sql(STATUSES)).rows == [("agent:a", "completed")]


def test_the_blocking_twin_asks_too(tmp_path: Path) -> None:
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail:
        trail.run(agent("hello"), "hi", session="a")
        assert trail.views.sql(STATUSES).rows == [("agent:a", "completed")]
        trail.views.wait()
        assert trail.views.lag() == 0


async def test_a_store_that_is_only_read_is_left_as_it_is_and_counted_all_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Steptrail.open(url) as trail:
        await trail.run(agent("hello"), "hi", session="a")
    before = (tmp_path / "runs.db").read_bytes()
    async with Steptrail.open(url, read_only=True) as trail:
        assert (await trail.views.sql(STATUSES)).rows == [("agent:a", "completed")]
    assert (tmp_path / "runs.db").read_bytes() == before
    assert (tmp_path / "runs.db-views" / "current.db").is_symlink()


async def test_views_of_a_store_that_was_deleted_and_made_anew_are_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    for session, count in (("a", 1), ("b", 3)):
        async with Steptrail.open(f"sqlite:///{path}") as trail:
            for number in range(count):
                await trail.run(agent("hello"), "hi", session=f"{session}{number}")
            answer = await trail.views.sql(STATUSES)
            assert [row[0] for row in answer.rows] == [f"agent:{session}{number}" for number in range(count)]
        path.unlink()


async def test_a_lost_folder_of_views_is_made_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    for _ in range(2):
        async with Steptrail.open(url) as trail:
            await trail.run(agent("hello"), "hi", session="a")
            assert (await trail.views.sql(STATUSES)).rows == [("agent:a", "completed")]
        shutil.rmtree(tmp_path / "runs.db-views")


def test_the_commands_show_ask_and_rebuild(store_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Steptrail.open_sync(store_url) as trail:
        trail.run(agent("hello"), "hi", session="a")

    def said(*words: str) -> str:
        assert main([*words, "--store", store_url]) == 0
        return capsys.readouterr().out

    assert json.loads(said("views", "--json")) == []
    assert json.loads(said("sql", f"{STATUSES}", "--json"))["rows"] == [{"stream": "agent:a", "status": "completed"}]
    assert said("sql", "SELECT stream FROM executions WHERE status = $1", "completed") == "stream\nagent:a\n"
    assert json.loads(said("views", "--json"))[0]["lag"] == 0
    assert said("views").splitlines()[1].split()[:3] == ["runs", f"{RunsView.version}", "1"]
    assert said("rebuild") == "the read models were made anew: generation 2\n"
    assert json.loads(said("rebuild", "--json")) == {"generation": 3}
    assert main(["sql", "DROP TABLE projections", "--store", store_url]) == 2
    assert "the question was refused" in capsys.readouterr().err


async def test_read_models_beside_a_file_that_is_only_read_are_made_anew_after_an_erasure(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    agent = AgentBuilder("desk").with_model(ScriptedModel(["Yes."] * 3)).build()
    async with Steptrail.open(url) as writing, Steptrail.open(url, read_only=True) as reading:
        for name in ("one", "two"):
            await writing.run(agent, "Hi", session=name)
        assert (await reading.views.sql("SELECT count(*) FROM executions")).rows == [(2,)]
        await writing.erase("one", by="ana", reason="asked")
        await writing.run(agent, "Hi", session="three")
        answer = await reading.views.sql("SELECT stream FROM executions ORDER BY 1")
        assert (answer.rows, answer.lag) == ([("agent:three",), ("agent:two",)], 0)
        assert await reading.views.verify() == []


def test_one_trail_waits_for_its_read_models_in_one_event_loop_after_another(tmp_path: Path) -> None:
    async def waited_in_vain(trail: Steptrail) -> None:
        await trail.run(agent("Yes."), "Hi")
        with pytest.raises(TimeoutError):
            await trail.views.wait(1_000_000, timeout=1)
        await trail.views.wait(timeout=60)

    trail = Steptrail.open(f"sqlite:///{tmp_path / 'runs.db'}")
    for _ in range(2):
        asyncio.run(waited_in_vain(trail))
    asyncio.run(trail.close())


def test_threads_that_ask_first_at_the_same_moment_have_the_same_read_models_and_they_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[object]()

    def slowly(self: object, *given: object) -> None:
        made.append(self)
        time.sleep(0.05)  # as the first import does
        began(cast("Any", self), *cast("Any", given))

    began = TrailViews.__init__
    monkeypatch.setattr(TrailViews, "__init__", slowly)
    with Steptrail.open_sync(f"sqlite:///{tmp_path / 'runs.db'}") as trail, ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(lambda: trail.views.runs()) for _ in range(4)]
        assert len({each.result().as_of for each in asked}) == 1
    assert len(made) == 1
    # They end by themselves, a moment after nobody waits for them any more.
    left = [thread for thread in threading.enumerate() if thread.name.startswith("steptrail-views")]
    for thread in left:
        thread.join(30)
    assert not [thread.name for thread in left if thread.is_alive()]


def test_what_stands_behind_a_handle_is_opened_once_by_whichever_loop_asks_first() -> None:
    opened = list[object]()

    def slowly() -> Views:
        opened.append(None)
        time.sleep(0.05)
        return cast("Views", object())

    views = TrailViews(slowly, cast("Any", None), lambda: 0)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(lambda: views.all) for _ in range(4)]
    assert len({id(each.result()) for each in asked}) == len(opened) == 1
