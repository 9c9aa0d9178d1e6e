"""The questions about runs that people ask, each with its statements: for golden plans, and to be measured.

They are about the rows of `many_runs`.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from steptrail.projections.asking.cursor import Cursor
from steptrail.projections.asking.filters import RunFilter, RunOrder
from steptrail.projections.asking.statements import Period, Questions, Statement
from steptrail.projections.asking.stats import StatsQuestion
from tests.harness.many_runs import BEGINNING, DAY

_NOW = BEGINNING + 30 * DAY
_TENANT = "tenant-07"
_WEEK = timedelta(days=7)
_FILTERS = {
    "all": RunFilter(),
    "status": RunFilter(status="failed"),
    "status, several": RunFilter(status={"failed", "waiting"}),
    "crashed": RunFilter(status="crashed"),
    "stop reason": RunFilter(stop_reason="steps_limit"),
    "tenant": RunFilter(tenant=_TENANT),
    "agent": RunFilter(agent="agent-3"),
    "agent, stop reason, 7 days": RunFilter(agent="agent-3", stop_reason="steps_limit", since=_WEEK),
    "failure group": RunFilter(signature=f"{3:016x}"),
    "error type": RunFilter(error_type="timeout"),
    "tool failed": RunFilter(tool="refund"),
    "effect failed": RunFilter(effect="unsafe"),
    "tag": RunFilter(tags={"user": "u7"}),
    "two tags, status": RunFilter(tags={"user": "u7", "plan": "free"}, status="failed"),
    "history of a session": RunFilter(stream="agent:s-000123"),
    "tree": RunFilter(root="agent:s-000122"),
    "children": RunFilter(parent="agent:s-000122"),
    "last day": RunFilter(since=timedelta(days=1)),
    "a cost at least": RunFilter(least={"cost": 0.99}),
    "a model that is nowhere, and completed": RunFilter(model="none", status="completed"),
}
SCANS = frozenset(
    {
        *(f"runs: {name}" for name in ("status, several", "error type", "a cost at least")),
        *(f"count: {name}" for name in ("all", "status, several", "error type", "a cost at least")),
        *(f"{what}: a model that is nowhere, and completed" for what in ("runs", "count")),
    }
)
"""The questions about runs that may look at all of them, because no index could tell which are wanted."""


def asked_questions(runs: int, crashed: Sequence[str] = ("agent:s-000001",)) -> Mapping[str, Sequence[Statement]]:
    """Return the statements of each question, over so many runs."""
    found: dict[str, Sequence[Statement]] = {}
    middle = runs // 2 * 50
    for owner, questions in (("", Questions()), ("one tenant, ", Questions(_TENANT))):
        for order in RunOrder:
            values = {RunOrder.DEAREST: 500_000_000, RunOrder.SLOWEST: 3_000_000, RunOrder.MOST_RETRIES: 0}
            place = Cursor(order, values.get(order, middle), middle)
            for which, after in ((order.value, None), (f"{order.value}, a page far down", place)):
                found[f"{owner}runs: all, {which}"] = [questions.runs(RunFilter(), order, 50, after, now=_NOW)]
        for name, period in (
            ("all time", Period()),
            ("30 days", Period(since=BEGINNING)),
            ("7 days, one agent", Period(since=_NOW - 7 * DAY, until=_NOW, agent="agent-3")),
        ):
            found |= {f"{owner}{key}, {name}": value for key, value in _of_period(questions, period).items()}
        found[f"{owner}failures: what signatures mean"] = [
            questions.kinds_of_failures([f"{sign:016x}" for sign in range(24)])
        ]
    for name, chosen in _FILTERS.items():
        found[f"count: {name}"] = [Questions().count(chosen, RunOrder.NEWEST, now=_NOW, crashed=crashed)]
        if name != "all":
            asked = Questions().runs(chosen, RunOrder.NEWEST, 50, None, now=_NOW, crashed=crashed)
            found[f"runs: {name}"] = [asked]
    dearest = Questions().runs(RunFilter(status="failed"), RunOrder.DEAREST, 50, None, now=_NOW)
    return found | {"runs: status, dearest": [dearest]}


def _of_period(questions: Questions, period: Period) -> Mapping[str, Sequence[Statement]]:
    by_agent = StatsQuestion(questions, period, ("agent",)).statements
    return {
        "stats: how runs ended": [questions.totals(period, ("day", "status", "stop_reason"))],
        "stats: how runs ended, by agent": by_agent[:1],
        "stats: percentiles": [questions.spread(period, ())],
        "stats: percentiles, by agent": by_agent[1:2],
        "stats: error rate by tool and class": [questions.tools(period)],
        "stats: models": [questions.models(period)],
        "stats: in shadow": [questions.shadow(period)],
        "stats: cost of retries": questions.retries(period),
        "failures: by signature and day": [questions.failures(period)],
    }
