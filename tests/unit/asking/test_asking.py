"""Questions about runs: what they find is what plain Python finds in the rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from steptrail.domain.errors import ConfigurationError
from steptrail.domain.instants import to_datetime
from steptrail.projections.asking.cursor import Cursor
from steptrail.projections.asking.filters import MEASURES, Measure, RunFilter, RunOrder
from steptrail.projections.asking.runs import RUN_COLUMNS, RunRow, page_of_runs, run_row
from steptrail.projections.asking.statements import COUNTED, Period, Questions, Statement
from steptrail.projections.asking.stats import GroupBy, StatsQuestion, failure_groups, percentiles
from steptrail.projections.runs_view.spread import bucket_of
from steptrail.projections.runs_view.tables import EXECUTIONS, TAGS, TOKENS, TOOL_CALLS, TRIES
from tests.harness.asked_views import AskedViews
from tests.harness.many_runs import BEGINNING, DAY
from tests.profile import examples

_RUNS, _OF = 300, 400
_NOW = BEGINNING + 30 * DAY


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedViews]:
    views = AskedViews(f"sqlite:///{tmp_path_factory.mktemp('asked') / 'runs.db'}", _RUNS, of=_OF)
    yield views
    views.close()


@pytest.fixture(scope="module")
def rows(asked: AskedViews) -> Sequence[Mapping[str, Any]]:
    names = [column.name for column in EXECUTIONS.columns]
    found = asked.ask(Statement(f"SELECT {', '.join(names)} FROM {EXECUTIONS.name}", ()))  # noqa: S608
    made = [dict(zip(names, row, strict=True)) for row in found]
    for row in made:
        key = [row["execution"]]
        tags, calls, tries = (
            asked.ask(Statement(f"SELECT {columns} FROM {table.name} WHERE execution = $1", key))  # noqa: S608
            for table, columns in (
                (TAGS, "name, value"),
                (TOOL_CALLS, "tool, effect, status"),
                (TRIES, "node, effect, status"),
            )
        )
        row["tags"], row["calls"] = dict(tags), calls or tries
        row["tokens"] = sum(row[name] for name in TOKENS)
    return made


def _fits(row: Mapping[str, Any], chosen: RunFilter, crashed: Sequence[str]) -> bool:
    for name in ("stop_reason", "resolved_by", "agent", "model", "tenant", "error_type", "error_class", "signature",
                 "parent", "root", "stream", "waits_for"):  # fmt: skip
        if (words := chosen.words(name)) and row[{"agent": "name"}.get(name, name)] not in words:
            return False
    if words := chosen.words("status"):
        is_crashed = row["status"] == "in_progress" and row["stream"] in crashed
        if row["status"] not in words and not (is_crashed and "crashed" in words):
            return False
    tools, effects = chosen.words("tool"), chosen.words("effect")
    if (tools or effects) and not any(
        status != "completed" and (not tools or tool in tools) and (not effects or effect in effects)
        for tool, effect, status in row["calls"]
    ):
        return False
    for bounds, beyond in ((chosen.least, False), (chosen.most, True)):
        for measure, bound in bounds.items():
            column, unit = MEASURES[measure]
            value = row[column or "tokens"]
            edge = bound if unit == 1 else round(bound * unit)
            if value is None or (value > edge if beyond else value < edge):
                return False
    started = to_datetime(row["started_at"])
    for instant, is_late in ((chosen.since, False), (chosen.until, True)):
        at = to_datetime(_NOW) - instant if isinstance(instant, timedelta) else instant
        if at is not None and (started >= at if is_late else started < at):
            return False
    return all(row["tags"].get(name) == value for name, value in chosen.tags.items())


def _sorted(rows: Sequence[Mapping[str, Any]], order: RunOrder) -> list[int]:
    keys: dict[RunOrder, Callable[[Mapping[str, Any]], Any]] = {
        RunOrder.NEWEST: lambda row: -row["execution"],
        RunOrder.OLDEST: lambda row: row["execution"],
        RunOrder.DEAREST: lambda row: (-row["cost_nanos"], -row["execution"]),
        RunOrder.SLOWEST: lambda row: (-row["active_us"], -row["execution"]),
        RunOrder.MOST_RETRIES: lambda row: (-row["retries"], -row["execution"]),
    }
    kept = [row for row in rows if order is not RunOrder.DEAREST or row["cost_nanos"] is not None]
    return [row["execution"] for row in sorted(kept, key=keys[order])]


def _page(
    asked: AskedViews, chosen: RunFilter, order: RunOrder, limit: int, after: str | None, **more: Any
) -> tuple[Sequence[RunRow], str | None]:
    tenant, crashed = more.get("tenant"), more.get("crashed", ())
    cursor = None if after is None else Cursor.of(after, order)
    statement = Questions(tenant).runs(chosen, order, limit, cursor, now=_NOW, crashed=crashed)
    return page_of_runs(asked.ask(statement), order, limit)


def _words(*words: str) -> st.SearchStrategy[Any]:
    some = st.sampled_from(words)
    return st.none() | some | st.frozensets(some, min_size=1)


_INSTANTS = (
    st.none()
    | st.timedeltas(timedelta(0), timedelta(days=40))
    | st.integers(0, 30).map(lambda days: to_datetime(BEGINNING + days * DAY))
)
_BOUNDS: st.SearchStrategy[Mapping[Measure, float]] = st.dictionaries(
    st.sampled_from(list(MEASURES)), st.floats(0, 5) | st.integers(0, 2_000), max_size=2
)
_FILTERS = st.builds(
    RunFilter,
    status=_words("completed", "failed", "stopped", "in_progress", "waiting", "crashed", "pending"),
    stop_reason=_words("completed", "steps_limit", "error"),
    resolved_by=st.none() | _words("StepsLimit", "ErrorPolicyCriterion"),
    agent=_words("agent-1", "agent-2", "agent-3", "no\0 such'"),
    model=_words("large", "small"),
    tenant=_words("tenant-03", "tenant-04"),
    tool=_words("refund", "mail"),
    effect=_words("read", "unsafe"),
    error_type=_words("timeout", "rate_limit"),
    error_class=_words("builtins:KeyError"),
    signature=_words(f"{3:016x}", f"{4:016x}"),
    parent=_words("agent:s-000012", "agent:s-000022"),
    root=_words("agent:s-000012", "agent:s-000032"),
    stream=_words("agent:s-000003", "agent:s-000004", "agent:s-000005"),
    waits_for=_words("approval"),
    tags=st.fixed_dictionaries(
        {}, optional={"plan": st.sampled_from(("free", "paid", "u7")), "user": st.sampled_from(("u7", "u64", "free"))}
    ),
    since=_INSTANTS,
    until=_INSTANTS,
    least=_BOUNDS,
    most=_BOUNDS,
)


@st.composite
def _few(draw: st.DrawFn) -> RunFilter:
    """Some fields of a filter: with all of them nothing would be found."""
    whole = draw(_FILTERS)
    chosen = draw(st.sets(st.sampled_from(RunFilter.__struct_fields__), max_size=3))
    return RunFilter(**{name: getattr(whole, name) for name in chosen})


@given(chosen=_few(), order=st.sampled_from(RunOrder), limit=st.integers(1, 120), crashed=st.booleans())
@examples(200)
def test_pages_joined_are_the_sorted_whole(
    asked: AskedViews,
    rows: Sequence[Mapping[str, Any]],
    chosen: RunFilter,
    order: RunOrder,
    limit: int,
    crashed: bool,
) -> None:
    streams = [f"agent:s-{number:06}" for number in range(0, _RUNS, 2)] if crashed else []
    wanted = [row for row in rows if _fits(row, chosen, streams)]
    found: list[int] = []
    after = None
    while True:
        page, after = _page(asked, chosen, order, limit, after, crashed=streams)
        found += [run.execution for run in page]
        if after is None:
            break
        assert len(page) == limit
    assert found == _sorted(wanted, order)
    ((counted,),) = asked.ask(Questions().count(chosen, order, now=_NOW, crashed=streams))
    assert counted == len(found)


@pytest.mark.parametrize("status", [None, "completed"])
def test_runs_with_several_tags_have_all_of_them(
    asked: AskedViews, rows: Sequence[Mapping[str, Any]], status: str | None
) -> None:
    for row in rows[:20]:
        chosen = RunFilter(tags=row["tags"], status=status)
        wanted = [each for each in rows if _fits(each, chosen, ())]
        page, _ = _page(asked, chosen, RunOrder.NEWEST, 1_000, None)
        assert [run.execution for run in page] == _sorted(wanted, RunOrder.NEWEST)
        assert (row in wanted) is (status in (None, row["status"]))


@pytest.mark.slow("fills the tables again and again")
def test_pages_of_a_list_do_not_move_while_runs_are_added(tmp_path: Path) -> None:
    asked = AskedViews(f"sqlite:///{tmp_path / 'runs.db'}", 60, of=400)
    begun = 60
    for order in RunOrder:
        before = [run.execution for run in _page(asked, RunFilter(), order, 1_000, None)[0]]
        found: list[int] = []
        after: str | None = None
        while True:
            page, after = _page(asked, RunFilter(), order, 7, after)
            found += [run.execution for run in page]
            if after is None:
                break
            asked.add(begun, 3)
            begun += 3
        # Each that was there is found once and in its order, and no other one twice.
        assert [each for each in found if each in set(before)] == before
        assert len(found) == len(set(found))
        if order is RunOrder.NEWEST:
            assert found == before
    asked.close()


def test_a_large_cost_in_dollars_is_rounded_once() -> None:
    row = dict.fromkeys(RUN_COLUMNS, 0) | {"cost_nanos": 2_339_408_926_541_233_834}
    assert run_row([row[name] for name in RUN_COLUMNS]).cost_usd == 2_339_408_926.541_234


def test_the_dearest_runs_are_those_with_a_cost(asked: AskedViews, rows: Sequence[Mapping[str, Any]]) -> None:
    page, after = _page(asked, RunFilter(), RunOrder.DEAREST, 1_000, None)
    costs = [run.cost_usd for run in page]
    assert None not in costs
    assert costs == sorted(costs, key=lambda cost: -(cost or 0))
    assert (len(costs), after) == (sum(row["cost_nanos"] is not None for row in rows), None)
    assert len(costs) < len(rows)


@given(name=st.sampled_from([name for name in dir(Questions) if not name.startswith("_")]), number=st.integers(0, 39))
@examples(200)
def test_of_a_tenant_every_question_finds_nothing_else(asked: AskedViews, name: str, number: int) -> None:
    tenant = f"tenant-{number:02}"
    questions, all_of_them = Questions(tenant), Questions()
    ways: dict[str, Callable[[Questions], Statement | Sequence[Statement]]] = {
        "runs": lambda each: each.runs(RunFilter(), RunOrder.NEWEST, 1_000, None, now=_NOW),
        "count": lambda each: each.count(RunFilter(), RunOrder.NEWEST, now=_NOW),
        "totals": lambda each: each.totals(Period(), ("tenant",)),
        "spread": lambda each: each.spread(Period(), ("tenant",)),
        "tools": lambda each: each.tools(Period()),
        "models": lambda each: each.models(Period()),
        "failures": lambda each: each.failures(Period()),
        "kinds_of_failures": lambda each: each.kinds_of_failures([f"{sign:016x}" for sign in range(24)]),
        "retries": lambda each: each.retries(Period()),
        "shadow": lambda each: each.shadow(Period()),
        "scores": lambda each: each.scores(Period()),
    }
    own = ways[name](questions)
    for statement in [own] if isinstance(own, Statement) else own:
        assert tenant in statement.values
        found = asked.ask(statement)
        assert not [cell for row in found for cell in row if str(cell).startswith("tenant-") and cell != tenant]
    # Nobody is forgotten: the tenants together are all.
    if name == "count":
        tenants = [Questions(f"tenant-{each:02}") for each in range(40)]
        parts = [asked.ask(each.count(RunFilter(), RunOrder.NEWEST, now=_NOW))[0][0] for each in tenants]
        ((whole,),) = asked.ask(all_of_them.count(RunFilter(), RunOrder.NEWEST, now=_NOW))
        assert sum(parts) == whole


def test_a_tenant_in_the_filter_does_not_reach_beyond_the_own_one(asked: AskedViews) -> None:
    assert _page(asked, RunFilter(tenant="tenant-04"), RunOrder.NEWEST, 10, None, tenant="tenant-05") == ([], None)


@pytest.mark.parametrize("by", [(), ("agent",), ("day", "agent"), ("kind",)])
@pytest.mark.parametrize("tenant", [None, "tenant-07"])
def test_stats_are_those_of_the_rows(
    asked: AskedViews, rows: Sequence[Mapping[str, Any]], by: Sequence[GroupBy], tenant: str | None
) -> None:
    since = BEGINNING + 5 * DAY
    questions = Questions(tenant)
    question = StatsQuestion(questions, Period(since=since), by)
    found = asked.ask(questions.failures(Period(since=since)))
    meanings = asked.ask(questions.kinds_of_failures(sorted({row[0] for row in found}))) if found else ()
    groups = failure_groups(found, meanings)
    stats = question.answer([asked.ask(each) for each in question.statements], groups, 7, 0)
    ended = [
        row
        for row in rows
        if row["ended_at"] is not None and row["ended_at"] >= since and tenant in (None, row["tenant"])
    ]
    assert stats.total.runs == len(ended) == sum(stats.days.values()) == sum(stats.total.statuses.values())
    assert stats.total.cost_usd == pytest.approx(sum(row["cost_nanos"] or 0 for row in ended) / 1e9)
    assert stats.total.tokens["input"] == sum(row["tokens_input"] for row in ended)
    assert stats.total.unpriced_runs == sum(row["cost_nanos"] is None for row in ended)
    assert sum(group.runs for group in stats.groups) == (len(ended) if by else 0)
    if by == ("agent",):
        names = {group.by["agent"]: group for group in stats.groups}
        for name, group in names.items():
            assert group.runs == sum(row["name"] == name for row in ended)
    for group in (stats.total, *stats.groups):
        chosen = [
            row
            for row in ended
            if group.by.get("agent") in (None, row["name"])
            and group.by.get("kind") in (None, row["kind"])
            and group.by.get("day") in (None, to_datetime(row["ended_at"]).date().isoformat())
        ]
        times = sorted(row["active_us"] / 1e6 for row in chosen)
        exact = times[-(-len(times) * 95 // 100) - 1]
        assert group.percentiles["active"].p95 == pytest.approx(exact, rel=0.02)
        assert group.percentiles["people"].p99 == 0
    assert sum(group.runs for group in stats.failures) == sum(row["signature"] is not None for row in ended)
    for failure in stats.failures:
        own = [row for row in rows if row["signature"] == failure.signature and tenant in (None, row["tenant"])]
        assert failure.sample == max(own, key=lambda row: int(row["execution"]))["stream"]
        assert failure.first_day <= failure.last_day
    assert stats.to_dict()["total"]["runs"] == len(ended)  # type: ignore[index, call-overload]
    assert all(each.errors == each.statuses.get("failed", 0) for each in stats.tools)
    assert sum(each.calls for each in stats.models) > 0
    assert {each.kind for each in stats.retries} <= {"model", "tool", "node"}


def test_stats_without_a_run_are_zeros(asked: AskedViews) -> None:
    question = StatsQuestion(Questions("nobody"), Period(), ("agent",))
    stats = question.answer([asked.ask(each) for each in question.statements], [], 0, 0)
    assert (stats.total.runs, stats.groups, stats.days, stats.tools, stats.since) == (0, [], {}, [], None)
    assert stats.total.percentiles["wall"].p99 == 0


def test_parts_of_runs_are_those_of_the_period(asked: AskedViews) -> None:
    def tries(period: Period) -> int:
        # Behind the tries are their time, five kinds of tokens and the cost.
        return sum(row[-8] for each in Questions().retries(period) for row in asked.ask(each))

    whole = tries(Period())
    assert whole == tries(Period(until=BEGINNING + 8 * DAY)) + tries(Period(since=BEGINNING + 9 * DAY)) > 0
    assert whole == sum(tries(Period(agent=f"agent-{number}")) for number in range(8))


@given(st.lists(st.integers(1, 10**13), min_size=1), st.sampled_from((50, 90, 95, 99)))
def test_a_percentile_is_at_most_two_per_cent_off(times: list[int], percent: int) -> None:
    buckets = {bucket_of(time): 0 for time in times}
    for time in times:
        buckets[bucket_of(time)] += 1
    exact = sorted(times)[-(-len(times) * percent // 100) - 1] / 1e6
    assert getattr(percentiles(buckets), f"p{percent}") == pytest.approx(exact, rel=0.02)


@given(st.sampled_from(RunOrder), st.integers(-(2**63) + 1, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_a_cursor_comes_back_from_its_text(order: RunOrder, value: int, execution: int) -> None:
    cursor = Cursor(order, value, execution)
    assert Cursor.of(cursor.to_text(), order) == cursor


@pytest.mark.parametrize("text", ["", "x", "newest.1", "oldest.1.1", "newest.g.1", "newest.1.-1", "newest.1.1\n",
                                  "newest.1.ffffffffffffffff",
                                  "newest.ffffffffffffffff.1", "newest.\u0661.1"])  # fmt: skip
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="no place in a list"):
        Cursor.of(text, RunOrder.NEWEST)


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": ()},
        {"least": {"height": 1}},
        {"most": {"cost": float("nan")}},
        {"most": {"cost": float("inf")}},
        {"least": {"steps": -1}},
        {"least": {"tokens": 2**70}},
        {"since": datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_a_filter_that_nobody_can_mean_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        RunFilter(**wrong)


def test_a_count_ends_at_ten_thousand() -> None:
    statement = Questions().count(RunFilter(since=datetime(2026, 1, 1, tzinfo=UTC)), RunOrder.NEWEST, now=0)
    assert f"LIMIT {COUNTED + 1})" in statement.text


def test_of_equal_counts_the_order_is_that_of_their_names_whatever_that_of_the_rows() -> None:
    question = StatsQuestion(Questions(), Period(), ())
    ends = [(1, status, reason, 1, *[0] * 18) for status, reason in (("failed", "error"), ("completed", "completed"))]
    calls = [("agent", "look", status, "", each, 1, 1, 0) for status, each in (("failed", "b:B"), ("failed", "a:A"))]

    def told(turn: int) -> Any:
        rows: list[Any] = [ends[::turn], [], calls[::turn], [], [], [], [], []]
        answer = question.answer(rows, [], 1, 0)
        return [list(answer.total.statuses), list(answer.total.stop_reasons), list(answer.tools[0].by_error)]

    assert told(1) == told(-1) == [["completed", "failed"], ["completed", "error"], ["a:A", "b:B"]]
