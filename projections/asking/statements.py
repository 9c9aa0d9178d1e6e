"""One SQL statement for each question about runs, the same for SQLite and PostgreSQL.

No planner chooses: a column that is to be looked up in an index stands alone, and every other one in an expression that
no index fits, `+number` or that of `_aside`. So a list either begins with the one condition that only few runs fulfil,
or goes through all runs in the order of the list.

`Questions` asks for one tenant, or for all, and is the only place that says so in SQL.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from steptrail.domain.shared.tags import kept_apart
from steptrail.domain.storable import plain
from steptrail.projections.asking.cursor import Cursor
from steptrail.projections.asking.filters import (
    CRASHED,
    MEASURES,
    Measure,
    RunFilter,
    RunOrder,
    bound_of,
    instant_of,
    score_condition,
)
from steptrail.projections.asking.runs import ORDERED_BY, RUN_COLUMNS
from steptrail.projections.kernel.table import Scalar, Table, fitting
from steptrail.projections.runs_view import sums
from steptrail.projections.runs_view.tables import (
    EVALUATIONS,
    EXECUTIONS,
    SCORES,
    SIGNATURES,
    TAGS,
    TOKENS,
    TOOL_CALLS,
    VISITS,
)

COUNTED = 10_000
"""So far the runs of a list are counted."""
_DAY = 86_400_000_000
_COMMON = "completed"
"""The status, and the stop reason, that most runs have: an index over them is no way to find few."""

_COLUMNS = {"agent": "name"}
_MASKED = ("resolved_by", "agent", "model", "tenant", "error_type", "error_class", "waits_for", "stop_reason", "status")
"""Fields of which one may be looked up. Many runs agree in the last two: where all runs are looked at, the others leave
hardly any for them."""
_FEW = ("stream", "parent", "root", "signature")
"""The columns with an index of which each value has few runs."""
_TOKENS = " + ".join(f"e.{name}" for name in TOKENS)


class Statement(NamedTuple):
    """A question in SQL, with `$1`, `$2` and so on for its values."""

    text: str
    values: Sequence[Scalar]


class Period(NamedTuple):
    """From the day of which instant to the day of which, in microseconds of UTC, and of which agent or workflow.

    None is for all. Runs are counted on the days on which they ended.
    """

    since: int | None = None
    until: int | None = None
    agent: str | None = None


class _Text:
    """Collects the conditions of a statement, and its values, which a part shares with the whole."""

    def __init__(self, values: list[Scalar] | None = None) -> None:
        self.conditions: list[str] = []
        self.values: list[Scalar] = [] if values is None else values

    def mark(self, value: Scalar) -> str:
        self.values.append(fitting(value) if isinstance(value, str) else value)
        return f"${len(self.values)}"

    def marks(self, values: Iterable[Scalar]) -> str:
        return ", ".join([self.mark(value) for value in values])

    def one_of(self, expression: str, words: Collection[str]) -> str:
        few = list(words)
        return f"{expression} = {self.mark(few[0])}" if len(few) == 1 else f"{expression} IN ({self.marks(few)})"

    @property
    def where(self) -> str:
        return " WHERE " + " AND ".join(self.conditions) if self.conditions else ""


class Questions:
    """The questions about runs, of one tenant, or of all when it is None. Instants are microseconds of UTC."""

    def __init__(self, tenant: str | None = None) -> None:
        self.tenant = tenant

    def runs(
        self,
        asked: RunFilter,
        order: RunOrder,
        limit: int,
        after: Cursor | None,
        *,
        now: int,
        crashed: Collection[str] = (),
    ) -> Statement:
        """Ask for a page and one row more, as `RUN_COLUMNS`. `crashed` are the streams whose runs have crashed."""
        text = _Text()
        column, way = ORDERED_BY[order], "ASC" if order is RunOrder.OLDEST else "DESC"
        by_key = column == "execution"
        is_in_key_order = self._of_filter(text, asked, now, crashed, by_key=by_key)
        # An index in the order of the list helps when every run is wanted: else it is a look at each run, one by one.
        in_order = by_key or not text.conditions
        mask = "" if in_order else "+"
        if column == "cost_nanos":
            text.conditions.append(f"{mask}e.cost_nanos IS NOT NULL")
        if after is not None:
            beyond = ">" if order is RunOrder.OLDEST else "<"
            if by_key:
                text.conditions.append(
                    f"{'' if is_in_key_order else '+'}e.execution {beyond} {text.mark(after.execution)}"
                )
            elif in_order:
                text.conditions.append(f"(e.{column}, e.execution) < ({text.marks((after.value, after.execution))})")
            else:
                value, execution = text.mark(after.value), text.mark(after.execution)
                # Not as a pair: SQLite would take an index for a part of it.
                equal = f"(+e.{column} = {value} AND +e.execution < {execution})"
                text.conditions.append(f"(+e.{column} < {value} OR {equal})")
        ordered = f"e.execution {way}" if by_key else f"{mask}e.{column} DESC, {mask}e.execution DESC"
        columns = ", ".join(f"e.{name}" for name in RUN_COLUMNS)
        end = f"ORDER BY {ordered} LIMIT {text.mark(limit + 1)}"
        return Statement(f"SELECT {columns} FROM {EXECUTIONS.name} e{text.where} {end}", text.values)  # noqa: S608

    def count(self, asked: RunFilter, order: RunOrder, *, now: int, crashed: Collection[str] = ()) -> Statement:
        """Ask how many runs there are in a list in this order, one more than `COUNTED` at most."""
        text = _Text()
        self._of_filter(text, asked, now, crashed, by_key=True)
        if ORDERED_BY[order] == "cost_nanos":
            text.conditions.append(f"{'+' if text.conditions else ''}e.cost_nanos IS NOT NULL")
        found = f"SELECT 1 AS one FROM {EXECUTIONS.name} e{text.where} LIMIT {COUNTED + 1}"  # noqa: S608
        return Statement(f"SELECT count(*) FROM ({found}) AS found", text.values)  # noqa: S608

    def totals(self, period: Period, by: Sequence[str]) -> Statement:
        """Ask for sums of runs by columns of `runs_daily`."""
        return self._daily(sums.RUNS_DAILY, period, by)

    def spread(self, period: Period, by: Sequence[str]) -> Statement:
        """Ask how many runs are in each bucket, by each of `SPREAD_MEASURES`."""
        return self._daily(sums.SPREAD_DAILY, period, ("bucket", *by))

    def tools(self, period: Period) -> Statement:
        """Ask how calls of tools ended, and tries of nodes."""
        return self._daily(sums.TOOLS_DAILY, period, ("kind", "tool", "status", "error_type", "error_class"))

    def models(self, period: Period) -> Statement:
        """Ask how model calls ended."""
        return self._daily(sums.MODELS_DAILY, period, ("model", "status"))

    def failures(self, period: Period) -> Statement:
        """Ask for failures by signature and day."""
        return self._daily(sums.FAILURES_DAILY, period, ("signature", "day"))

    def kinds_of_failures(self, signatures: Sequence[str]) -> Statement:
        """Ask what signatures mean, and for the newest run that failed with each; None where no run did."""
        text = _Text()
        wanted = text.one_of("s.signature", signatures)
        text.conditions.append("e.signature = s.signature")
        self._of_tenant(text, "e.tenant")
        newest = f"SELECT max(e.execution) FROM {EXECUTIONS.name} e{text.where}"  # noqa: S608
        found = (
            "SELECT s.signature, s.error_type, s.error_class, s.tool, s.template, "  # noqa: S608
            f"({newest}) AS sample FROM {SIGNATURES.name} s WHERE {wanted}"
        )
        # The limit leaves nothing out. It has the newest run of each looked for once, before the join: without it
        # PostgreSQL looks twice, and reads all runs for the join.
        few = f"{found} LIMIT {text.mark(len(signatures))}"
        return Statement(
            "SELECT f.signature, f.error_type, f.error_class, f.tool, f.template, e.stream, e.ordinal "  # noqa: S608
            f"FROM ({few}) AS f LEFT JOIN {EXECUTIONS.name} e ON e.execution = f.sample",
            text.values,
        )

    def retries(self, period: Period) -> Sequence[Statement]:
        """Ask what tries cost that came to nothing: of model calls, tools and nodes.

        Each row has the kind of its stream, a name, the type of an error, and sums.
        """
        return [
            self._daily(sums.MODELS_DAILY, period, ("model", "error_type"), "status IN ('failed', 'interrupted')"),
            self._daily(sums.RETRIES_DAILY, period, ("kind", "tool", "error_type")),
        ]

    def shadow(self, period: Period) -> Statement:
        """Ask for how many runs a criterion in shadow voted, by its vote."""
        text = _Text()
        text.conditions += ["t.shadow >= ''", "t.shadow IS NOT NULL"]
        self._of_period(text, period)
        return Statement(
            f"SELECT t.criterion, t.shadow, count(DISTINCT t.execution) FROM {EVALUATIONS.name} t{text.where} "  # noqa: S608
            "GROUP BY t.criterion, t.shadow",
            text.values,
        )

    def scores(self, period: Period) -> Statement:
        """Ask for the scores of whole runs that were given on these days, by agent, name and label."""
        text = _Text()
        text.conditions.append("t.step = 0")
        self._of_runs(text, period, "t.scored_at")
        columns = "e.name, t.name, t.label"
        return Statement(
            f"SELECT {columns}, count(*), CAST(sum(t.value_millionths) AS bigint) FROM {SCORES.name} t "  # noqa: S608
            f"JOIN {EXECUTIONS.name} e ON e.execution = t.execution{text.where} GROUP BY {columns}",
            text.values,
        )

    def _of_tenant(self, text: _Text, column: str, *, is_looked_up: bool = False) -> None:
        """Add the tenant. Every statement that reads runs or sums passes here."""
        if self.tenant is not None:
            expression = column if is_looked_up else _aside(column)
            text.conditions.append(f"{expression} = {text.mark(kept_apart(self.tenant))}")

    def _daily(self, table: Table, period: Period, by: Sequence[str], first: str | None = None) -> Statement:
        text = _Text()
        if first is not None:
            text.conditions.append(first)
        for sign, at in ((">=", period.since), ("<=", period.until)):
            if at is not None:
                text.conditions.append(f"day {sign} {text.mark(at // _DAY)}")
        self._of_tenant(text, "tenant", is_looked_up=table in sums.OF_ALL_TENANTS)
        if period.agent is not None:
            text.conditions.append(f"{_aside('name')} = {text.mark(plain(period.agent))}")
        # PostgreSQL makes a numeric of the sum of many bigints.
        added = ", ".join(f"CAST(sum({column.name}) AS bigint)" for column in table.amounts)
        columns = ", ".join(by)
        grouped = f" GROUP BY {columns}" if by else ""
        listed = f"{columns}, {added}" if by else added
        counted = sums.OF_ALL_TENANTS.get(table, table) if self.tenant is None else table
        return Statement(f"SELECT {listed} FROM {counted.name}{text.where}{grouped}", text.values)  # noqa: S608

    def _of_runs(self, text: _Text, period: Period, at: str) -> None:
        """Add the conditions on runs, with the instant `at` on the days of the period."""
        if period.since is not None:
            text.conditions.append(f"{at} >= {text.mark(period.since // _DAY * _DAY)}")
        if period.until is not None:
            text.conditions.append(f"{at} < {text.mark((period.until // _DAY + 1) * _DAY)}")
        self._of_tenant(text, "e.tenant")
        if period.agent is not None:
            text.conditions.append(f"{_aside('e.name')} = {text.mark(plain(period.agent))}")

    def _of_period(self, text: _Text, period: Period) -> None:
        """Add the conditions of runs to a question about few parts of them, if there are any."""
        of_run = _Text(text.values)
        self._of_runs(of_run, period, "+e.ended_at")
        if of_run.conditions:
            of_run.conditions.append("e.execution = t.execution")
            # A value and neither a join nor EXISTS: for those PostgreSQL reads all runs.
            text.conditions.append(f"(SELECT 1 FROM {EXECUTIONS.name} e{of_run.where}) = 1")  # noqa: S608

    def _of_filter(self, text: _Text, asked: RunFilter, now: int, crashed: Collection[str], *, by_key: bool) -> bool:
        """Add the conditions of a filter. Return whether what is found is in the order of executions."""
        few = _looked_up(asked, is_scoped=self.tenant is not None, by_key=by_key)
        for name in _FEW:
            if words := asked.words(name):
                column = f"e.{name}" if name == few else _aside(f"e.{name}")
                text.conditions.append(text.one_of(column, words))
                if name in ("parent", "root", "signature"):
                    # Their indexes leave out the runs that have none, and the condition has to say so.
                    text.conditions.append(f"e.{name} IS NOT NULL")
        for name in _MASKED:
            if words := asked.words(name):
                words = tuple((kept_apart if name == "tenant" else plain)(word) for word in words)
                column = f"e.{_COLUMNS.get(name, name)}"
                masked = column if name == few else _aside(column)
                if name == "status" and CRASHED in words:
                    text.conditions.append(_crashed(text, words, crashed, masked, looks_up=few == "crashed"))
                else:
                    text.conditions.append(text.one_of(masked, words))
        text.conditions += _of_tags(text, asked.tags, looks_up=few == "tags")
        text.conditions += _of_scores(text, asked.scores, looks_up=few == "scores")
        if asked.tool is not None or asked.effect is not None:
            column = "e.execution" if few == "tool" else "+e.execution"
            text.conditions.append(f"{column} IN ({_calls(text, asked)})")
        self._of_tenant(text, "e.tenant", is_looked_up=few == "scope")
        _of_sizes(text, asked)
        since, until = instant_of(asked.since, now), instant_of(asked.until, now)
        if since is not None:
            if few is None:
                # No run before the first of them in the log needs to be looked at, whatever the clocks were.
                # An expression: else the key is gone through from its beginning, to where they are.
                first = f"SELECT min(+execution) FROM {EXECUTIONS.name} WHERE started_at >= {text.mark(since)}"  # noqa: S608
                text.conditions.append(f"e.execution >= ({first})")
            text.conditions.append(f"+e.started_at >= {text.mark(since)}")
        if until is not None:
            text.conditions.append(f"+e.started_at < {text.mark(until)}")
        return few not in ("tags", "scores", "tool", "stream", "crashed")


def _aside(column: str) -> str:
    """Return the value of a column in a form that no index fits. It takes half as long as to add a text to it."""
    return f"CASE WHEN {column} IS NOT NULL THEN {column} END"


def _looked_up(asked: RunFilter, *, is_scoped: bool, by_key: bool) -> str | None:
    """Return the field that is looked up first: the one that only few runs fulfil; None for none."""
    given = [name for name in asked.__struct_fields__ if getattr(asked, name) != _DEFAULTS[name]]
    for name in _FEW:
        if name in given:
            return name
    if "tags" in given:
        return "tags"
    if "scores" in given:
        return "scores"
    if "tool" in given or "effect" in given:
        return "tool"
    if is_scoped and not given:
        return "scope"
    for name in ("stop_reason", "status", "agent", "tenant"):
        words = asked.words(name)
        # Several values would have to be sorted, and a common one is no way to few, unless all of its runs are wanted.
        if name == "status" and words == (CRASHED,):
            return "crashed"
        if len(words) == 1:
            is_wanted_whole = given == [name] and not is_scoped and by_key
            if is_wanted_whole or (name in ("stop_reason", "status") and words != (_COMMON,)):
                return name
    return None


_DEFAULTS = {name: getattr(RunFilter(), name) for name in RunFilter.__struct_fields__}


def _crashed(text: _Text, words: Sequence[str], crashed: Collection[str], column: str, *, looks_up: bool) -> str:
    """Return the condition of a status that may be crashed. `column` is that of the status."""
    streams = sorted(crashed)
    found = "1 = 0"
    if streams:
        theirs = text.one_of("e.stream" if looks_up else _aside("e.stream"), streams)
        found = f"({column} = 'in_progress' AND {theirs})"
    others = [word for word in words if word != CRASHED]
    return f"({found} OR {text.one_of(column, others)})" if others else found


def _of_tags(text: _Text, tags: Mapping[str, str], *, looks_up: bool) -> Sequence[str]:
    """Return the conditions of tags: one for each, or a single one if they are to be looked up first."""
    pairs = [
        f"t.name = {text.mark(kept_apart(name))} AND t.value = {text.mark(kept_apart(value))}"
        for name, value in sorted(tags.items())
    ]
    if not looks_up:
        # Half of all runs may have a tag: so one look for each run that is left, and no list of them.
        return [f"EXISTS (SELECT 1 FROM {TAGS.name} t WHERE {pair} AND t.execution = e.execution)" for pair in pairs]  # noqa: S608
    # One in the other, so that the runs that have only some of the tags are left out before they are read.
    found = ""
    for pair in reversed(pairs):
        inner = f" AND t.execution IN ({found})" if found else ""
        found = f"SELECT t.execution FROM {TAGS.name} t WHERE {pair}{inner}"  # noqa: S608
    return [f"e.execution IN ({found})"]


def _of_scores(text: _Text, conditions: Sequence[str], *, looks_up: bool) -> Sequence[str]:
    """Return the conditions on scores. The first is looked up if it is to be: most runs have no score."""
    found = list[str]()
    for name, sign, value in sorted({score_condition(each) for each in conditions}, key=str):
        wanted = f"t.name = {text.mark(name)} AND t.step = 0"
        if sign is not None:
            column = "t.label" if isinstance(value, str) else "t.value_millionths"
            wanted += f" AND {column} {sign} {text.mark(plain(value) if isinstance(value, str) else value)}"
        if looks_up and not found:
            found.append(f"e.execution IN (SELECT t.execution FROM {SCORES.name} t WHERE {wanted})")  # noqa: S608
        else:
            found.append(f"EXISTS (SELECT 1 FROM {SCORES.name} t WHERE {wanted} AND t.execution = e.execution)")  # noqa: S608
    return found


def _calls(text: _Text, asked: RunFilter) -> str:
    tools, effects = tuple(map(plain, asked.words("tool"))), asked.words("effect")

    def of(column: str) -> str:
        # The indexes are over what did not complete, by tool or node, and by effect class.
        if not tools:
            return text.one_of("effect", effects) + " AND status <> 'completed'"
        found = text.one_of(column, tools) + " AND status <> 'completed'"
        return found + (" AND " + text.one_of(_aside("effect"), effects) if effects else "")

    calls = f"SELECT execution FROM {TOOL_CALLS.name} WHERE {of('tool')}"  # noqa: S608
    visits = f"SELECT execution FROM {VISITS.name} WHERE {of('node')}"  # noqa: S608
    return f"{calls} UNION ALL {visits}"


def _of_sizes(text: _Text, asked: RunFilter) -> None:
    sides: Sequence[tuple[Literal["least", "most"], str]] = (("least", ">="), ("most", "<="))
    for name, sign in sides:
        bounds: Mapping[Measure, float] = getattr(asked, name)
        for measure, bound in sorted(bounds.items()):
            column, _ = MEASURES[measure]
            expression = f"+e.{column}" if column else f"({_TOKENS})"
            text.conditions.append(f"{expression} {sign} {text.mark(bound_of(name, measure, bound))}")
