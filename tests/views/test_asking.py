"""Questions about runs to `trail.views`, on both databases."""

import asyncio
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from steptrail import AgentBuilder, ErrorPolicy, Steptrail, tool
from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instants import from_datetime
from steptrail.models import ModelReply, ModelRequest
from steptrail.projections.asking.filters import RunFilter, RunOrder
from steptrail.projections.asking.statements import Period, Questions
from steptrail.projections.asking.stats import StatsQuestion
from steptrail.runtime.agent.agent import Agent
from steptrail.testing import ManualClock, ScriptedModel, call, say
from steptrail.tools import ApprovalRule
from tests.harness.asked_views import AskedViews
from tests.harness.many_runs import BEGINNING, DAY


@tool(approval=ApprovalRule())
def look() -> str:
    """Look somewhere, if a person allows it."""
    return "nothing"


def desk(*replies: str) -> Agent:
    """An agent with so many replies. Without one, its run fails."""
    return AgentBuilder("desk").with_model(ScriptedModel([say(reply) for reply in replies])).build()


async def test_runs_are_found_as_soon_as_they_are_stored(store_url: str) -> None:
    async with Steptrail.open(store_url) as trail:
        for name, user in (("a", "u7"), ("b", "u8"), ("c", "u7")):
            await trail.run(desk("hello"), "hi", session=name, metadata={"tags": {"user": user}, "tenant": user})
        await trail.run(desk(), "hi", session="d")
        views = trail.views
        page = await views.runs(RunFilter(tags={"user": "u7"}, since=timedelta(days=1)), limit=1)
        assert [(row.stream, row.status, row.is_crashed) for row in page.rows] == [("agent:c", "completed", False)]
        assert (page.lag, page.as_of) == (0, await trail.store.last_position())
        assert str(await page.count()) == "2"
        assert page.next is not None
        rest = await views.runs(RunFilter(tags={"user": "u7"}), limit=5, after=page.next)
        assert ([row.stream for row in rest.rows], rest.next) == (["agent:a"], None)
        stats = await views.stats(since=timedelta(days=1), by=("agent",))
        assert (stats.total.runs, stats.total.statuses) == (4, {"completed": 3, "failed": 1})
        assert [(group.by, group.runs) for group in stats.groups] == [({"agent": "desk"}, 4)]
        (failure,) = stats.failures
        assert (failure.sample, failure.ordinal, failure.runs) == ("agent:d", 1, 1)
        assert list(await views.failures()) == [failure]
        own = views.of("u8")
        assert [row.stream for row in (await own.runs()).rows] == ["agent:b"]
        assert ((await own.stats()).total.runs, list(await own.failures())) == (1, [])
        assert (await views.stats(tenant="u8")).total.runs == 1


async def test_a_list_without_the_runs_that_have_no_cost_does_not_count_them() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(desk("hello"), "hi")
        page = await trail.views.runs(order="dearest")
        assert (list(page.rows), (await page.count()).runs) == ([], 0)


async def test_a_run_that_began_at_the_end_of_a_time_is_not_in_it_for_whoever_asks() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(desk("hello"), "hi")
        ((row,), (run,)) = (await trail.runs(), (await trail.views.runs()).rows)
        began = run.started_at
        assert row.started_at == from_datetime(began)
        for moment, there in ((began, 0), (began + timedelta(microseconds=1), 1)):
            counted = await trail.views.runs(RunFilter(until=moment))
            assert (len(counted.rows), (await counted.count()).runs) == (there, there)
            assert len(await trail.runs(until=moment)) == there


async def test_votes_in_shadow_are_those_of_the_runs_that_ended_on_the_days_of_a_time() -> None:
    began = datetime(2027, 1, 15, 23, tzinfo=UTC)
    clock = ManualClock(began)
    patient = AgentBuilder("desk").with_model(ScriptedModel([call("look"), "Done."])).with_tools(look)
    async with Steptrail.open("sqlite:///:memory:", clock=clock) as trail:
        agent = patient.with_max_tokens(1, shadow=True).build()
        await trail.run(agent, "hi", session="a")
        clock.advance(timedelta(hours=2))
        (question,) = await trail.inbox()
        await trail.session("a").approve(question.id, by="ana")
        assert (await trail.session("a").resume(agent)).status == "completed"
        day = timedelta(days=1)
        for since, until, there in (
            (None, None, 1),
            (began + day, began + day, 1),
            (began + timedelta(hours=1), None, 1),
            (None, began, 0),
            (began + 2 * day, None, 0),
        ):
            stats = await trail.views.stats(since, until)
            assert (stats.total.runs, sum(each.runs for each in stats.shadow)) == (there, there)


@pytest.mark.parametrize(
    "value", ["a\0b", "x" * 10_000, "' OR 1=1 --", "%", "\u202e", "a\nb", "\N{GRINNING FACE}" * 100]
)
async def test_a_run_is_found_by_any_tag_that_it_was_given(value: str) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(desk("hello"), "hi", session="a", metadata={"tags": {"k": value, value: "v"}})
        await trail.run(desk("hello"), "hi", session="b", metadata={"tags": {"k": "other"}})
        for tags in ({"k": value}, {value: "v"}, {"k": value, value: "v"}):
            assert [row.stream for row in (await trail.views.runs(RunFilter(tags=tags))).rows] == ["agent:a"]


@pytest.mark.parametrize(
    "wrong", [{"order": "best"}, {"limit": 0}, {"limit": 10_001}, {"after": "x"}, {"after": "oldest.1.1"}]
)
async def test_a_list_that_there_is_not_is_refused(wrong: dict[str, str]) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(ConfigurationError):
            await trail.views.runs(**wrong)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="not grouped by 'weather'"):
            await trail.views.stats(by=("weather",))  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="no other tenant"):
            await trail.views.of("a").stats(tenant="b")
        assert (await trail.views.runs(RunFilter(status="crashed"))).rows == []


@pytest.mark.parametrize(
    ("given", "known"),
    [
        ({"status": "lost"}, "pending"),
        ({"status": ["failed", "lost"]}, "crashed"),
        ({"stop_reason": "lost"}, "steps_limit"),
        ({"effect": "lost"}, "unsafe"),
        ({"waits_for": {"lost"}}, "approval"),
    ],
)
def test_a_word_that_no_run_can_have_is_refused_with_those_that_there_are(given: dict[str, Any], known: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{next(iter(given))} 'lost': there are .*{known}"):
        RunFilter(**given)


def test_the_blocking_twin_answers_the_same(store_url: str) -> None:
    with Steptrail.open_sync(store_url) as trail:
        trail.run(desk("hello"), "hi", session="a", metadata={"tenant": "t"})
        page = trail.views.runs()
        assert ([row.stream for row in page.rows], page.next, page.lag) == (["agent:a"], None, 0)
        assert (page.count().runs, trail.views.stats().total.runs, list(trail.views.failures())) == (1, 1, [])
        assert trail.views.of("t").of("t").runs().rows == page.rows
        assert trail.views.of("u").runs().rows == []


async def test_names_that_are_as_long_as_they_may_be_are_counted_and_found(store_url: str) -> None:
    def name(seed: int) -> str:  # of letters in no order, which no database makes shorter
        letters = Random(seed)  # noqa: S311
        return "".join(chr(letters.randint(0x4E00, 0x9FA5)) for _ in range(1_000))

    error = type(name(1), (RuntimeError,), {"__module__": name(2)})

    def broken(request: ModelRequest) -> ModelReply:
        raise error(name(3))

    model = ScriptedModel([call(name(4)), broken], name=name(5))
    policy = ErrorPolicy.ignore_tool_errors()
    agent = AgentBuilder(name(6)).with_model(model).with_error_policy(policy).build()
    async with Steptrail.open(store_url) as trail:
        await trail.run(agent, "hi", session="a", metadata={"tenant": name(7), "tags": {name(8): name(9)}})
        for asked in (
            RunFilter(agent=name(6), model=name(5), tenant=name(7)),
            RunFilter(tool=name(4)),
            RunFilter(tags={name(8): name(9)}, error_class=f"{name(2)}:{name(1)}"),
        ):
            assert [row.stream for row in (await trail.views.runs(asked)).rows] == ["agent:a"]
        assert (await trail.views.stats(agent=name(6), tenant=name(7))).total.runs == 1
        assert list(await trail.views.verify()) == []


async def test_both_databases_answer_every_question_alike(postgres_url: str, tmp_path: object) -> None:
    def answers(url: str) -> list[object]:
        asked = AskedViews(url, 400, of=400)
        now = BEGINNING + 30 * DAY
        filters = [
            RunFilter(),
            RunFilter(status="failed", agent={"agent-1", "agent-2"}),
            RunFilter(tool="refund", effect="unsafe"),
            RunFilter(tags={"plan": "free"}, since=timedelta(days=9), least={"cost": 0.1, "tokens": 10}),
            RunFilter(status={"crashed", "waiting"}, tenant="tenant-01"),
            RunFilter(signature=f"{3:016x}", until=timedelta(days=1), error_class="builtins:KeyError\0"),
        ]
        found: list[object] = []
        for questions in (Questions(), Questions("tenant-03")):
            for chosen in filters:
                for order in RunOrder:
                    found.append(asked.ask(questions.runs(chosen, order, 7, None, now=now, crashed=["agent:s-000001"])))
                    found.append(asked.ask(questions.count(chosen, order, now=now)))
            for period in (Period(), Period(since=BEGINNING + 9 * DAY, until=now, agent="agent-1")):
                for statement in StatsQuestion(questions, period, ("agent", "day")).statements:
                    found.append(sorted(asked.ask(statement), key=str))
                found.append(sorted(asked.ask(questions.failures(period)), key=str))
            found.append(sorted(asked.ask(questions.kinds_of_failures([f"{each:016x}" for each in range(9)])), key=str))
        asked.close()
        return found

    of_file = await asyncio.to_thread(answers, f"sqlite:///{tmp_path}/runs.db")
    of_server = await asyncio.to_thread(answers, postgres_url)
    for left, right in zip(of_file, of_server, strict=True):
        assert left == right
