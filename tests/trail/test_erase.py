"""An erased session is gone for whoever reads, and nobody who follows the log notices more than that."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from steptrail import Agent, Steptrail, tool
from steptrail.domain.kernel.erasure import Erased
from steptrail.domain.kernel.event import Event
from steptrail.domain.kernel.index_query import IndexQuery
from steptrail.domain.kernel.record import EMPTY_STREAM, Commit, CommitHead, Snapshot
from steptrail.domain.shared.events import MetadataChanged
from steptrail.errors import (
    ConcurrencyConflict,
    ConfigurationError,
    ErasureRefused,
    NotStorable,
    SessionBusy,
    SessionErased,
    SessionNotFound,
)
from steptrail.infrastructure.store import open_store
from steptrail.interfaces.cli.examination import examine
from steptrail.runtime.kernel import erasing
from steptrail.runtime.kernel.environment import Environment
from steptrail.runtime.kernel.erasing import erase_stream, retain_streams
from steptrail.testing import ManualClock, Reply, call
from steptrail.tools import SubagentTool
from steptrail.workflow import Workflow
from tests.runner.kit import agent_of
from tests.trail.test_tree import family

LARGE = "a page of a book " * 4_000


@tool(approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def said(trail: Steptrail, session: str, text: str = "hello") -> None:
    await trail.run(agent_of([text]).build(), "hi", session=session)


@pytest.mark.acceptance("8.7-1")
async def test_an_erased_session_is_gone_and_says_who_erased_it_when_and_why(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await said(trail, "s1")
        await said(trail, "s2")
        head = await trail.store.head("agent:s1")
        report = await trail.erase("s1", by="ana", reason="asked by the customer")
        (erasure,) = report.erased
        assert (erasure.events, erasure.digest) == (head.version, head.digest.hex())
        assert await trail.erasure("s1") == erasure
        assert await trail.erasure("s2") is None
        session = trail.session("s1")
        tree = partial(trail.tree, "s1")
        for ask in (session.state, session.events, session.history, session.why, session.result, tree):
            with pytest.raises(SessionErased, match="'s1' was erased by ana on 20") as caught:
                await ask()
            assert (caught.value.by, caught.value.at) == ("ana", erasure.at)
        for again in (trail.run, trail.start):
            with pytest.raises(SessionErased):
                await again(agent_of(["no"]).build(), "again", session="s1")
        with pytest.raises(SessionErased):
            await session.send(agent_of(["no"]).build(), "again")
        with pytest.raises(SessionErased):
            await session.stop()
        with pytest.raises(SessionErased):
            await trail.erase("s1", by="ben", reason="twice")
        assert [row.session_id for row in await trail.runs()] == ["s2"]
        assert await trail.session("s2").result()
    store = open_store(store_url)
    seen = await examine(store)
    assert (seen.streams, seen.findings) == (1, [])
    await store.close()


@pytest.mark.acceptance("8.7-2")
async def test_followers_before_inside_and_behind_the_gap_go_on_and_meet_the_erasure(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await said(trail, "s1")
        await said(trail, "newest")
        end = await trail.store.last_position()
        places = [entry.position async for entry in trail.subscribe(session="newest", follow=False)]
        await trail.erase("newest", by="ana", reason="test")
        spent = await trail.store.last_position()
        assert spent > end
        await said(trail, "s3")
        for after in (0, places[0], places[len(places) // 2], end):
            entries = [entry async for entry in trail.subscribe(after, follow=False)]
            positions = [entry.position for entry in entries]
            assert positions == sorted(set(positions))
            assert not set(positions) & set(places)
            ours = [entry for entry in entries if entry.stream == "agent:newest"]
            assert [(type(each.record.event), each.position) for each in ours] == [(Erased, spent)]
            assert {entry.position > spent for entry in entries if entry.stream == "agent:s3"} == {True}
        async with trail.follower("named") as follower:
            await follower.keep(end)
        async with trail.follower("named") as follower:
            assert follower.kept == end
            entry = await anext(aiter(follower))
            assert isinstance(entry.record.event, Erased)


async def test_a_follower_of_the_session_is_told_while_it_waits(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail, Steptrail.open(store_url) as other:
        await said(trail, "s1")
        following = trail.session("s1").follow(forever=True)

        async def taken() -> int:
            count = 0
            async with following as entries:
                async for _ in entries:
                    count += 1
            return count

        reading = asyncio.create_task(taken())
        while following.after < (await trail.store.version("agent:s1")):
            await asyncio.sleep(0.01)
        await other.erase("s1", by="ana", reason="test")
        with pytest.raises(SessionErased):
            await reading


async def test_a_session_at_work_or_open_is_refused_and_named(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent_of(["hello"]).build(), "hi", session="leased")
        lease = await trail.store.acquire("agent:leased", owner="somebody")
        with pytest.raises(SessionBusy, match="somebody"):
            await trail.erase("leased", by="ana", reason="test")
        await lease.release()
        await trail.start(agent_of(["hello"]).build(), "hi", session="open")
        with pytest.raises(ErasureRefused, match="session open is open") as caught:
            await trail.erase("open", by="ana", reason="test")
        assert caught.value.needed_by == ("open",)
        with pytest.raises(SessionNotFound):
            await trail.erase("unknown", by="ana", reason="test")
        for by, reason in (("", "why"), ("ana", " ")):
            with pytest.raises(ConfigurationError, match="must not be empty"):
                await trail.erase("leased", by=by, reason=reason)
        for by, reason in (("ana\0", "why"), ("ana", "why\0"), ("ana\ud800", "why"), ("ana", "\ud800")):
            with pytest.raises(NotStorable, match=r"at (by|reason): .* has no JSON form"):
                await trail.erase("leased", by=by, reason=reason)
            with pytest.raises(NotStorable, match=r"at (by|reason): .* has no JSON form"):
                await trail.retain(older_than=timedelta(days=1), by=by, reason=reason)
        assert len((await trail.erase("leased", by="ana", reason="test", dry_run=True)).erased) == 1
        assert await trail.session("leased").state()


async def test_children_and_forks_are_named_and_go_with_it_only_when_that_is_said(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(family(), "go", session="top")
        await said(trail, "source")
        fork = await trail.session("source").fork(session="fork")
        with pytest.raises(ErasureRefused, match="fork") as caught:
            await trail.erase("source", by="ana", reason="test")
        assert caught.value.needed_by == ("fork",)
        await trail.start(agent_of(["hello"]).build(), "more", session="fork")
        with pytest.raises(ErasureRefused, match="session fork is open"):
            await trail.erase("source", by="ana", reason="test", cascade=True)
        await fork.stop()
        report = await trail.erase("source", by="ana", reason="test", cascade=True)
        assert {each.stream for each in report.erased} == {"agent:source", "agent:fork"}

        children = sorted((await trail.tree("top")).children, key=lambda child: len(child.children), reverse=True)
        with pytest.raises(ErasureRefused):
            await trail.erase("top", by="ana", reason="test")
        await trail.erase(children[1].run.session_id, by="ana", reason="test")
        rows = [(row.run.session_id, row.run.is_erased) for row in (await trail.tree("top")).children]
        assert sorted(rows) == sorted((each.run.session_id, each is children[1]) for each in children)
        report = await trail.erase("top", by="ana", reason="test", cascade=True)
        assert len(report.erased) == 3
        assert await trail.runs() == []


async def test_a_workflow_is_called_by_the_name_that_can_be_given_back(store_url: str) -> None:
    below = Workflow("below").noop("a").build()
    flow = Workflow("top").flow("b", below).flow("c", below).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(flow, session="top")
        with pytest.raises(
            ErasureRefused, match=r"'flow:top': flow:child-\w+, flow:child-\w+ were begun by it"
        ) as caught:
            await trail.erase("flow:top", by="ana", reason="test")
        for name in (*caught.value.needed_by, "flow:top"):
            await trail.erase(name, by="ana", reason="test")
            with pytest.raises(SessionErased, match=f"^run '{name}' was erased by ana") as gone:
                await trail.erase(name, by="ana", reason="test")
            assert gone.value.session == name
        await trail.start(below, session="open")
        with pytest.raises(ErasureRefused, match="session flow:open is open") as caught:
            await trail.erase("flow:open", by="ana", reason="test")
        assert caught.value.needed_by == ("flow:open",)


async def test_a_child_of_an_open_session_is_kept(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await trail.run(family(), "go", session="top")
        child = (await trail.tree("top")).children[0].run.session_id
        await trail.start(agent_of(["hello"]).build(), "more", session="top")
        with pytest.raises(ErasureRefused, match="begun by session top, which is open") as caught:
            await trail.erase(child, by="ana", reason="test", cascade=True)
        assert caught.value.needed_by == ("top",)


async def test_a_session_whose_failed_call_began_an_erased_one_answers_and_goes_on(store_url: str) -> None:
    def boss(script: list[Reply]) -> Agent:
        helper = agent_of(script).build()
        asking = call("helper", prompt="go")
        return agent_of([asking, asking, "Done."]).with_tools(SubagentTool(helper, name="helper")).build()

    failing, mended = boss([ConnectionError("cut off")]), boss(["There."])
    async with Steptrail.open(store_url) as trail:
        for name in ("asked again", "retried", "told more"):
            session = trail.session(name.replace(" ", "-"))
            await session.send(failing, "go")
            ((_, below),) = list((await trail.tree(session.session_id)).walk())[1:]
            await trail.erase(below.run.session_id, by="ana", reason="test")
        assert (await trail.run(failing, "go", session="asked-again")).stored
        assert (await trail.session("asked-again").resume(mended)).status == "failed"
        assert (await trail.session("retried").retry(mended)).output == "Done."
        assert (await trail.session("told-more").send(mended, "and now?")).output == "Done."


async def test_a_run_whose_node_began_an_erased_session_can_be_stopped(store_url: str) -> None:
    failing = Workflow("w").agent("ask", agent_of([ConnectionError("cut off")]).build(), prompt="go").build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(failing, {}, session="r")
        ((_, below),) = list((await trail.tree("flow:r")).walk())[1:]
        await trail.erase(below.run.session_id, by="ana", reason="test")
        await trail.flow("r").requeue()
        assert (await trail.flow("r").stop()).status == "stopped"


async def test_bodies_stay_as_long_as_another_session_names_them(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await said(trail, "s1", LARGE)
        await said(trail, "s2", LARGE)
        await trail.erase("s1", by="ana", reason="test")
        assert (await trail.session("s2").result()).output == LARGE
        await trail.erase("s2", by="ana", reason="test")
    store = open_store(store_url)
    assert list(store.recorder.digests()) == []
    await store.close()


async def test_a_writer_that_has_not_looked_since_brings_nothing_back(store_url: str) -> None:
    """Its head was once right, and the place behind it is free again."""
    early, late = open_store(store_url), open_store(store_url)
    event: Event = MetadataChanged(changes={"a": 1}, by="x")

    def commit(name: str) -> Commit:
        return Commit(CommitHead(commit_id=name, actor="x"), ((1, event),))

    first = await early.append("agent:s", EMPTY_STREAM, commit("c1"))
    second = await late.append("agent:s", first, commit("c2"))
    await late.append("agent:s", second, commit("c3"))
    await late.erase({"agent:s": 3}, at=2, by="ana", reason="test")
    for head in (EMPTY_STREAM, first, second):
        for store in (early, late):
            with pytest.raises(ConcurrencyConflict):
                await store.append("agent:s", head, commit("late"))
    await early.keep_snapshot("agent:s", Snapshot(first, "toy", b"secret"))
    assert await early.streams_with_snapshots() == []
    assert [type(record.event) async for _, _, record in early.log()] == [Erased]
    for store in (early, late):
        with pytest.raises(SessionErased):
            await store.head("agent:s")
        await store.close()


async def test_what_has_grown_since_is_not_erased(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await said(trail, "s1")
        version = await trail.store.version("agent:s1")
        for wrong in (version - 1, version + 1):
            with pytest.raises(ConcurrencyConflict):
                await trail.store.erase({"agent:s1": wrong}, at=1, by="ana", reason="test")
        await said(trail, "s2")
        with pytest.raises(ConcurrencyConflict):
            await trail.store.erase({"agent:s1": version, "agent:s2": 1}, at=1, by="ana", reason="test")
        assert await trail.session("s1").result()


@pytest.mark.acceptance("8.7-3")
async def test_retention_erases_what_ended_long_ago_and_never_what_somebody_needs(store_url: str) -> None:
    clock = ManualClock()
    async with Steptrail.open(store_url, clock=clock) as trail:
        await said(trail, "old")
        await trail.run(family(), "go", session="tree")
        await trail.start(agent_of(["x"]).build(), "hi", session="open")
        await said(trail, "forked")
        await trail.session("forked").fork(session="fork")
        await trail.start(agent_of(["x"]).build(), "other", session="fork")
        await said(trail, "revived")
        clock.advance(10 * 86_400)
        await trail.session("revived").send(agent_of(["again"]).build(), "and?")
        await said(trail, "young")
        week = timedelta(days=7)
        plan = await trail.retain(older_than=week)
        assert plan.is_dry_run
        everything = {row.session_id for row in await trail.runs()}
        done = await trail.retain(older_than=week, dry_run=False)
        assert {each.stream for each in done.erased} == {each.stream for each in plan.erased}
        left = {row.session_id for row in await trail.runs()}
        assert left == {"open", "forked", "fork", "revived", "young"}
        assert everything - left == {each.stream.removeprefix("agent:") for each in done.erased}
        assert [stream for stream, _ in done.kept] == ["agent:forked"]
        assert (await trail.retain(older_than=week, dry_run=False)).erased == ()
        assert (await trail.retain(older_than=week, status="failed")).kept == ()
        for older_than, status, limit in ((timedelta(0), None, None), (week, "paused", None), (week, None, 0)):
            with pytest.raises(ConfigurationError):
                await trail.retain(older_than=older_than, status=status, limit=limit)


async def test_retention_goes_through_pages_and_ends_at_its_limit(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "_PAGE", 2)
    clock = ManualClock()
    async with Steptrail.open(store_url, clock=clock) as trail:
        for number in range(5):
            await said(trail, f"s{number}")
        clock.advance(86_400)
        assert len((await trail.retain(older_than=timedelta(hours=1), dry_run=False, limit=3)).erased) == 3
        assert len((await trail.retain(older_than=timedelta(hours=1), dry_run=False)).erased) == 2


async def test_one_that_somebody_holds_is_kept_and_the_report_names_who(store_url: str) -> None:
    clock = ManualClock()
    async with Steptrail.open(store_url, clock=clock) as trail:
        await trail.run(agent_of(["Done."]).build(), "hi", session="s1")
        clock.advance(2 * 86_400)
        lease = await trail.store.acquire("agent:s1", owner="somebody")
        report = await trail.retain(older_than=timedelta(days=1), dry_run=False)
        await lease.release()
    ((stream, why),) = report.kept
    assert (stream, report.erased) == ("agent:s1", ())
    assert why.startswith("it is being run by somebody")
    assert "take_over" not in why


async def test_two_processes_erase_at_once_and_one_of_them_does(store_url: str) -> None:
    async with Steptrail.open(store_url) as one, Steptrail.open(store_url) as two:
        await said(one, "s1")
        outcomes = await asyncio.gather(
            *[trail.erase("s1", by="ana", reason="test") for trail in (one, two, one, two)], return_exceptions=True
        )
        assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 1
        assert {type(each) for each in outcomes if isinstance(each, BaseException)} <= {SessionBusy, SessionErased}


async def test_a_session_with_a_message_to_answer_is_kept(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await said(trail, "s1")
        await trail.session("s1").post(agent_of(["more"]).build(), "and?")
        with pytest.raises(ErasureRefused):
            await trail.erase("s1", by="ana", reason="test")


async def test_a_fork_that_has_worked_since_keeps_its_source_from_being_erased_by_age(store_url: str) -> None:
    clock = ManualClock()
    async with Steptrail.open(store_url, clock=clock) as trail:
        await said(trail, "source")
        fork = await trail.session("source").fork(session="fork")
        clock.advance(10 * 86_400)
        await fork.send(agent_of(["more"]).build(), "and?")
        report = await trail.retain(older_than=timedelta(days=7), dry_run=False)
        assert report.erased == ()
        assert report.kept == (("agent:source", "session fork belongs to it and is younger"),)


async def test_a_fork_that_works_while_its_source_is_archived_keeps_both(store_url: str) -> None:
    environment = Environment(store=open_store(store_url), clock=(clock := ManualClock()))
    async with Steptrail(environment) as trail:
        await said(trail, "source")
        clock.advance(10 * 86_400)

        async def keep(streams: Sequence[str]) -> None:
            assert [*streams] == ["agent:source"]
            fork = await trail.session("source").fork(session="fork")
            await fork.send(agent_of(["", "young"]).build(), "and?")

        before = clock.utc() - 7 * 86_400_000_000
        erase = partial(erase_stream, environment, by="ana", reason="test", cascade=True, before=before, keep=keep)
        _, kept = await retain_streams(environment, IndexQuery(ended_before=before), erase, None)
        assert kept == [("agent:source", "session fork belongs to it and is younger")]
        assert (await trail.session("fork").state()).output == "young"


async def test_a_fork_that_nobody_has_named_is_a_conflict_in_the_transaction(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        await said(trail, "source")
        version = await trail.store.version("agent:source")
        await trail.session("source").fork(session="fork")
        with pytest.raises(ConcurrencyConflict):
            await trail.store.erase({"agent:source": version}, at=1, by="ana", reason="test")
        assert await trail.session("fork").state()
