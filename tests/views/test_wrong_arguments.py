"""Arguments of `trail.views` that no question can be made of, and that must not find more than was asked for."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from steptrail import AgentBuilder, Steptrail
from steptrail.domain.errors import ConfigurationError, QueryRefused
from steptrail.domain.json_value import JsonValue
from steptrail.projections.asking.filters import RunFilter
from steptrail.testing import ScriptedModel, call, say
from tests.views.kit import search


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"status": 1}, "status of a filter is a text or a collection of texts, not 1"),
        ({"agent": b"desk"}, "agent of a filter"),
        ({"tool": ["a", 1]}, "tool of a filter"),
        ({"root": [None]}, "root of a filter"),
        ({"tenant": (each for each in ["acme"])}, "tenant of a filter"),
        ({"stream": iter(["agent:a"])}, "stream of a filter"),
        ({"stream": [str(each) for each in range(1_001)]}, "at most 1,000 of stream, not 1,001"),
        ({"tags": None}, "tags of a filter are a mapping"),
        ({"tags": {"a": 1}}, "a tag of a filter is a name and a text, not 'a' and 1"),
        ({"tags": {f"k{each}": "v" for each in range(17)}}, "no run has more than 16 tags"),
        ({"since": 1}, "an instant is a datetime, or a timedelta for how long ago, not 1"),
        ({"until": "2026-01-01"}, "not '2026-01-01'"),
        ({"least": 1}, "least of a filter is a mapping"),
        ({"least": {"cost": "a"}}, "the bound 'a' of cost is no size"),
        ({"most": {"cost": None}}, "the bound None of cost is no size"),
        ({"most": {"cost": Decimal("NaN")}}, "is no size"),
        ({"status": "failed", "agent": [1] * 1_000}, "…"),
    ],
)
def test_a_filter_of_wrong_types_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RunFilter(**wrong)


def test_all_that_is_wrong_with_a_filter_is_said_at_once() -> None:
    words = {"status": ["lost", "failed", "gone"], "effect": "odd", "agent": 1}
    rest = {"tags": {"a": 1}, "least": {"cost": "a", "size": 1}, "since": 1, "until": "soon"}
    with pytest.raises(ConfigurationError) as refused:
        RunFilter(**words, **rest)  # type: ignore[arg-type]
    said = str(refused.value).split("; ")
    assert len(said) == 8
    assert "no run has the status 'lost' or 'gone': there are pending," in said[0]
    for word in ("agent", "'odd'", "tag", "'a' of cost", "'size'", "ago, not 1", "'soon'"):
        assert any(word in each for each in said), word


async def test_all_groups_that_there_are_not_are_named() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(ConfigurationError, match="not grouped by 'hour' or 'mood': there are "):
            await trail.views.stats(by=["hour", "agent", "mood"])  # type: ignore[list-item]


WRONG: Sequence[Callable[[Any], Any]] = (
    lambda views: views.runs(None),
    lambda views: views.runs({"status": "failed"}),
    lambda views: views.runs(limit="3"),
    lambda views: views.runs(limit=1.5),
    lambda views: views.runs(limit=True),
    lambda views: views.runs(limit=10**5_000),
    lambda views: views.runs(after=1),
    lambda views: views.runs(fresh="later"),
    lambda views: views.runs(fresh=float("nan")),
    lambda views: views.stats(since=1),
    lambda views: views.stats(by="agent"),
    lambda views: views.stats(by=[["agent"]]),
    lambda views: views.stats(by=None),
    lambda views: views.stats(agent=["desk"]),
    lambda views: views.failures(agent=1),
    lambda views: views.sql(1),
    lambda views: views.sql("SELECT 1", timeout="3"),
    lambda views: views.sql("SELECT 1", limit=None),
    lambda views: views.sql("SELECT 1", limit=True),
    lambda views: views.sql("SELECT 1", limit=10**30),
    lambda views: views.wait("3"),
    lambda views: views.wait(10**30),
    lambda views: views.wait(-1),
    lambda views: views.wait(True),
    lambda views: views.rebuild(whole="x"),
    lambda views: views.wait(timeout=float("nan")),
    lambda views: views.wait(timeout=0),
    lambda views: views.wait(timeout=-1),
    lambda views: views.wait(timeout=float("inf")),
    lambda views: views.wait(timeout=True),
    lambda views: views.prune(older_than=1),
    lambda views: views.prune(older_than=timedelta(days=1), dry_run=None),
)


@pytest.mark.parametrize("asked", WRONG)
async def test_a_question_of_wrong_types_is_refused(asked: Callable[[Any], Any]) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(ConfigurationError):
            await asked(trail.views)


@pytest.mark.parametrize("tenant", [None, 1, ["acme"], b"acme"])
async def test_what_is_no_tenant_does_not_see_the_runs_of_all(tenant: Any) -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        with pytest.raises(ConfigurationError, match="a tenant is a text"):
            trail.views.of(tenant)
        with pytest.raises(ConfigurationError, match="a tenant is a text"):
            trail.views.of("acme").of(tenant)


async def test_who_writes_the_values_of_a_question_otherwise_is_told_how() -> None:
    async with Steptrail.open("sqlite:///:memory:") as trail:
        for text in ("SELECT ?", "SELECT $1, $2"):
            with pytest.raises(QueryRefused, match=re.escape("; $1, $2 and so on stand for the values")):
                await trail.views.sql(text, "a")


async def test_a_bound_between_two_counts_is_none_of_them() -> None:
    agent = AgentBuilder("desk").with_model(ScriptedModel([call("search", query="tea"), say("Done.")]))
    async with Steptrail.open("sqlite:///:memory:") as trail:
        await trail.run(agent.with_tools(search).build(), "hi", session="a")

        async def found(**bounds: Any) -> int:
            return len((await trail.views.runs(RunFilter(**bounds))).rows)

        assert [await found(least={"steps": bound}) for bound in (2, 1.5, 2.5)] == [1, 1, 0]
        assert [await found(most={"steps": bound}) for bound in (2, 1.5, 2.5)] == [1, 0, 1]


async def test_tenants_and_tags_that_begin_alike_are_told_apart(store_url: str) -> None:
    tenants = ["a" * 64, "a" * 64 + "b", "a" * 64 + "c", "a", "a\0"]
    async with Steptrail.open(store_url) as trail:
        for number, tenant in enumerate(tenants):
            agent = AgentBuilder("desk").with_model(ScriptedModel([say("Done.")])).build()
            metadata: dict[str, JsonValue] = {"tenant": tenant, "tags": {tenant: "v", "user": tenant}}
            await trail.run(agent, "hi", session=f"s{number}", metadata=metadata)
        for number, tenant in enumerate(tenants):
            own = trail.views.of(tenant)
            filters = (RunFilter(tenant=tenant), RunFilter(tags={"user": tenant}), RunFilter(tags={tenant: "v"}))
            for page in (await own.runs(), *[await trail.views.runs(each) for each in filters]):
                assert [row.stream for row in page.rows] == [f"agent:s{number}"]
            assert ((await own.stats()).total.runs, (await trail.views.stats(tenant=tenant)).total.runs) == (1, 1)
