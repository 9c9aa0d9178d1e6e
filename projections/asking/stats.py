"""Says what all runs of a time come to: how they ended, how long they took, what they cost, and what went wrong.

Runs, calls and failures are counted on the day of UTC on which they ended, so a time begins and ends with a whole day.
Percentiles are read from buckets and are at most two per cent off.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from steptrail.domain.instants import Datetime, to_datetime
from steptrail.projections.asking.runs import AnswerPart, in_units
from steptrail.projections.asking.statements import Period, Questions, Statement
from steptrail.projections.runs_view.spread import middle_of
from steptrail.projections.runs_view.sums import RUNS_DAILY, SPREAD_MEASURES
from steptrail.projections.runs_view.tables import TOKENS

GroupBy = Literal["agent", "day", "kind"]
"""Names the groups of runs. Their status and stop reason are told for each group."""

GROUPS: Mapping[GroupBy, str] = {"agent": "name", "day": "day", "kind": "kind"}
_DAY = 86_400_000_000
_OFF = 2.0


class Percentiles(AnswerPart, frozen=True, kw_only=True):
    """Seconds that half, 90, 95 and 99 per cent of runs did not exceed, at most two per cent off."""

    p50: float
    p90: float
    p95: float
    p99: float


class Group(AnswerPart, frozen=True, kw_only=True):
    """Runs that ended, those with the same values of `by`, such as `{"agent": "desk"}`; all of them without any.

    `stop_reasons` counts them by why they stopped, and `statuses` by status. `unpriced_runs` have no cost, or one that
    is a lower bound.
    """

    by: Mapping[str, str]
    runs: int
    stop_reasons: Mapping[str, int]
    statuses: Mapping[str, int]
    steps: int
    tool_calls: int
    errors: int
    retries: int
    approvals: int
    active_seconds: float
    wall_seconds: float
    idle_seconds: float
    people_seconds: float
    tokens: Mapping[str, int]
    wasted_tokens: int
    cost_usd: float
    wasted_usd: float
    unpriced_runs: int
    percentiles: Mapping[str, Percentiles]


class ToolStats(AnswerPart, frozen=True, kw_only=True):
    """Calls of a tool, or of a node of workflows: `errors` of `calls` failed, `by_error` by type and class."""

    kind: str
    tool: str
    calls: int
    errors: int
    error_rate: float
    attempts: int
    seconds: float
    statuses: Mapping[str, int]
    by_error: Mapping[str, int]


class ModelStats(AnswerPart, frozen=True, kw_only=True):
    """Calls of a model, by how they ended."""

    model: str
    calls: int
    statuses: Mapping[str, int]
    seconds: float
    tokens: Mapping[str, int]
    cost_usd: float
    unpriced_calls: int


class Retries(AnswerPart, frozen=True, kw_only=True):
    """Tries that came to nothing, of a `model`, a `tool` or a `node`, with one type of error, and what they cost.

    Of a model all calls count that failed or were cut off; of the others the tries that something else came after.
    """

    kind: str
    name: str
    error_type: str
    tries: int
    seconds: float
    tokens: int
    cost_usd: float


class FailureGroup(AnswerPart, frozen=True, kw_only=True):
    """Failures with one signature. `days` counts by day all that failed so, and `runs` the runs that it ended.

    `sample` is the stream of the newest run that failed because of it, and `ordinal` the number of that run there.
    """

    signature: str
    error_type: str
    error_class: str
    tool: str
    template: str
    runs: int
    calls: int
    retried: int
    first_day: str
    last_day: str
    days: Mapping[str, int]
    sample: str | None
    ordinal: int | None


class ShadowVotes(AnswerPart, frozen=True, kw_only=True):
    """For how many runs a criterion in shadow voted so."""

    criterion: str
    vote: str
    runs: int


class ScoreStats(AnswerPart, frozen=True, kw_only=True):
    """Scores of whole runs of an agent or a workflow with one name, that count and were given in the time.

    `mean` is that of the numbers, where a yes is 1 and a no is 0; None without any. `labels` counts the others.
    """

    agent: str
    name: str
    scores: int
    mean: float | None
    labels: Mapping[str, int]


class Stats(AnswerPart, frozen=True, kw_only=True):
    """The runs of a time and what they come to. `groups` has them by what was asked, `days` by day.

    `since` is the beginning of the first day that is counted, None for the beginning of the log. `as_of` is the
    position of the log up to which all is counted, and `lag` how many positions behind it are not.
    """

    since: Datetime | None
    total: Group
    groups: Sequence[Group]
    days: Mapping[str, int]
    tools: Sequence[ToolStats]
    models: Sequence[ModelStats]
    retries: Sequence[Retries]
    failures: Sequence[FailureGroup]
    shadow: Sequence[ShadowVotes]
    scores: Sequence[ScoreStats]
    as_of: int
    lag: int
    percentiles_off_percent: float = _OFF


Rows = Sequence[Sequence[Any]]


class StatsQuestion:
    """The statements of `Stats`, in their order, and what makes the answer of their rows."""

    def __init__(self, questions: Questions, period: Period, by: Sequence[GroupBy]) -> None:
        self._by, self._since = by, period.since
        columns = [GROUPS[each] for each in by]
        with_day = columns if "day" in columns else [*columns, "day"]
        self.statements: Sequence[Statement] = (
            questions.totals(period, (*with_day, "status", "stop_reason")),
            questions.spread(period, columns),
            questions.tools(period),
            questions.models(period),
            questions.shadow(period),
            questions.scores(period),
            *questions.retries(period),
        )
        self._with_day = with_day

    def answer(self, found: Sequence[Rows], failures: Sequence[FailureGroup], as_of: int, lag: int) -> Stats:
        """Return the answer of the rows of each statement."""
        totals, spread, tools, models, shadow, scores, *retries = found
        width = len(self._by)
        day = self._with_day.index("day")
        days: Counter[str] = Counter()
        for row in totals:
            days[_day_text(row[day])] += row[len(self._with_day) + 2]
        skip = len(self._with_day)
        # By their stored values, which are told in words once for each group and not for each row.
        rows_of = _by_key(totals, slice(width))
        measured_of = _by_key(spread, slice(1, 1 + width))
        keys = sorted((tuple(_shown(self._by, key)), key) for key in rows_of)

        def group(by: Mapping[str, str], rows: Rows, measured: Rows) -> Group:
            return _group(by, [row[skip:] for row in rows], measured)

        return Stats(
            since=None if self._since is None else to_datetime(self._since // _DAY * _DAY),
            total=group({}, totals, spread),
            groups=[
                group(dict(zip(self._by, shown, strict=True)), rows_of[key], measured_of.get(key, ()))
                for shown, key in (keys if self._by else ())
            ],
            days=dict(sorted(days.items())),
            tools=_tools(tools),
            models=_models(models),
            retries=_retries(*retries),
            failures=failures,
            shadow=[
                ShadowVotes(criterion=row[0], vote=row[1], runs=row[2])
                for row in sorted(shadow, key=lambda row: str(row[:2]))
            ],
            scores=_scores(scores),
            as_of=as_of,
            lag=lag,
        )


def percentiles(buckets: Mapping[int, int]) -> Percentiles:
    """Return the percentiles of runs that are counted in buckets; zeros for none."""
    total, ordered = sum(buckets.values()), sorted(buckets.items())

    def at(percent: int) -> float:
        seen = 0
        for bucket, runs in ordered:
            seen += runs
            # The smallest bucket that so many of all runs do not exceed.
            if seen * 100 >= total * percent:
                return middle_of(bucket) / 1e6
        return 0.0

    return Percentiles(p50=at(50), p90=at(90), p95=at(95), p99=at(99))


def failure_groups(found: Rows, meanings: Rows) -> Sequence[FailureGroup]:
    """Return failures by signature, the one that ended most runs first, of the rows of two statements."""
    known = {row[0]: row for row in meanings}
    groups: list[FailureGroup] = []
    for (signature,), rows in _by_key(found, slice(1)).items():
        _, error_type, error_class, tool, template, sample, ordinal = known.get(
            signature, (signature, "", "", "", "", None, None)
        )
        days = {_day_text(row[1]): sum(row[2:]) for row in sorted(rows, key=lambda row: int(row[1]))}
        runs, calls, retried = (sum(row[place] for row in rows) for place in (2, 3, 4))
        groups.append(
            FailureGroup(
                signature=signature,
                error_type=error_type,
                error_class=error_class,
                tool=tool,
                template=template,
                runs=runs,
                calls=calls,
                retried=retried,
                first_day=min(days),
                last_day=max(days),
                days=days,
                sample=sample,
                ordinal=ordinal,
            )
        )
    return sorted(groups, key=lambda each: (-each.runs, -each.calls, -each.retried, each.signature))


def _day_text(day: int) -> str:
    """Return a day since 1970-01-01 as a date in ISO 8601."""
    return to_datetime(day * _DAY).date().isoformat()


def _by_key(rows: Rows, place: slice) -> Mapping[tuple[Any, ...], Rows]:
    """Return rows by the values that stand in a place of them."""
    found: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[place]), []).append(row)
    return found


def _shown(by: Sequence[GroupBy], values: Sequence[Any]) -> Iterable[str]:
    return [_day_text(value) if each == "day" else value for each, value in zip(by, values, strict=True)]


def _group(by: Mapping[str, str], rows: Rows, measured: Rows) -> Group:
    stop_reasons: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for status, reason, runs, *_ in rows:
        statuses[status] += runs
        stop_reasons[reason] += runs
    # The first two columns are texts.
    sums = {each.name: sum(row[place] for row in rows) for place, each in enumerate(RUNS_DAILY.amounts, 2)}
    spread: dict[str, Counter[int]] = {measure: Counter() for measure in SPREAD_MEASURES}
    for bucket, *counts in measured:
        for measure, count in zip(SPREAD_MEASURES, counts[-len(SPREAD_MEASURES) :], strict=True):
            spread[measure][bucket] += count
    return Group(
        by=by,
        stop_reasons=_most_first(stop_reasons),
        statuses=_most_first(statuses),
        percentiles={measure: percentiles(buckets) for measure, buckets in spread.items()},
        **in_units(sums),
    )


def _most_first(counted: Counter[str]) -> Mapping[str, int]:
    """Return what was counted most first; of equals by name, since rows come in an order of each database's own."""
    return dict(sorted(counted.items(), key=lambda each: (-each[1], each[0])))


def _tools(found: Rows) -> Sequence[ToolStats]:
    made: list[ToolStats] = []
    for (kind, tool), rows in _by_key(found, slice(2)).items():
        statuses: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for row in rows:
            statuses[row[2]] += row[5]
            if row[2] == "failed":
                errors[" ".join(part for part in (row[3], row[4]) if part) or "unknown"] += row[5]
        calls, attempts, took = (sum(row[place] for row in rows) for place in (5, 6, 7))
        failed = errors.total()
        made.append(
            ToolStats(
                kind=kind,
                tool=tool,
                calls=calls,
                errors=failed,
                error_rate=failed / calls if calls else 0.0,
                attempts=attempts,
                seconds=took / 1e6,
                statuses=_most_first(statuses),
                by_error=_most_first(errors),
            )
        )
    return sorted(made, key=lambda each: (-each.calls, each.kind, each.tool))


def _models(found: Rows) -> Sequence[ModelStats]:
    made: list[ModelStats] = []
    for (model,), rows in _by_key(found, slice(1)).items():
        statuses: Counter[str] = Counter()
        for row in rows:
            statuses[row[1]] += row[2]
        calls, took, *tokens, cost, unpriced = (sum(row[place] for row in rows) for place in range(2, 11))
        made.append(
            ModelStats(
                model=model,
                calls=calls,
                statuses=_most_first(statuses),
                seconds=took / 1e6,
                tokens=_tokens(tokens),
                cost_usd=cost / 10**9,
                unpriced_calls=unpriced,
            )
        )
    return sorted(made, key=lambda each: (-each.calls, each.model))


def _scores(found: Rows) -> Sequence[ScoreStats]:
    made: list[ScoreStats] = []
    for (agent, name), rows in _by_key(found, slice(2)).items():
        labels = Counter({row[2]: row[3] for row in rows if row[2] is not None})
        numbers, total = (sum(row[place] for row in rows if row[2] is None) for place in (3, 4))
        mean = total / numbers / 1e6 if numbers else None
        count = numbers + labels.total()
        made.append(ScoreStats(agent=agent, name=name, scores=count, mean=mean, labels=_most_first(labels)))
    return sorted(made, key=lambda each: (each.agent, each.name))


def _retries(of_models: Rows, of_calls: Rows) -> Sequence[Retries]:
    what = {"agent": "tool", "flow": "node"}
    # How many calls have no cost, the last sum of a model, is not told of tries.
    found: Rows = [*(("model", *row[:-1]) for row in of_models), *((what[row[0]], *row[1:]) for row in of_calls)]
    made = [
        Retries(
            kind=kind,
            name=name,
            error_type=error,
            tries=tries,
            seconds=took / 1e6,
            tokens=sum(tokens),
            cost_usd=cost / 10**9,
        )
        for kind, name, error, tries, took, *tokens, cost in found
    ]
    return sorted(made, key=lambda each: (-each.tries, each.kind, each.name, each.error_type))


def _tokens(sums: Sequence[int]) -> Mapping[str, int]:
    return {name.removeprefix("tokens_"): tokens for name, tokens in zip(TOKENS, sums, strict=True)}
