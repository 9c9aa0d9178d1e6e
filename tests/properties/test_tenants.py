"""What `views.of(tenant)` answers is what a store answers that holds the runs of that tenant and no others."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from hypothesis import given, strategies as st

from steptrail.infrastructure.views.database import Statements
from steptrail.interfaces.python.asking_runs import AskingRuns, RunsPage
from steptrail.projections.asking.filters import RunFilter, RunOrder
from steptrail.projections.asking.stats import GROUPS
from steptrail.projections.runs_view.sums import OF_ALL_TENANTS
from steptrail.projections.runs_view.tables import EXECUTIONS, ROWS, SIGNATURES
from steptrail.projections.runs_view.view import RunsView
from tests.harness.asked_views import AskedViews
from tests.harness.many_runs import BEGINNING, DAY
from tests.profile import examples

TENANTS = ["tenant-03", "tenant-07", "nobody", "tenant-03' OR '1' = '1", "%"]
_RUNS = 600
_NOW = BEGINNING + 30 * DAY
_START = datetime.fromtimestamp(BEGINNING / 1e6, UTC)


@dataclass
class Stores:
    """The tables of many runs, and for each tenant those that are left when all others are deleted."""

    every: AskedViews
    alone: dict[str, AskedViews]


def _delete_others(tenant: str, statements: Statements) -> None:
    for table in (*RunsView.tables, *OF_ALL_TENANTS):
        if "tenant" in {column.name for column in table.columns}:
            statements.change(f"DELETE FROM {table.name} WHERE tenant <> $1", tenant)  # noqa: S608
    for table in ROWS:
        if table not in (EXECUTIONS, SIGNATURES):
            statements.change(
                f"DELETE FROM {table.name} WHERE execution NOT IN (SELECT execution FROM {EXECUTIONS.name})"  # noqa: S608
            )
    for own, of_all in OF_ALL_TENANTS.items():
        key = ", ".join(of_all.key)
        sums = ", ".join(f"sum({column.name})" for column in of_all.amounts)
        statements.change(f"DELETE FROM {of_all.name}")  # noqa: S608
        names = ", ".join(column.name for column in of_all.columns)
        statements.change(f"INSERT INTO {of_all.name} ({names}) SELECT {key}, {sums} FROM {own.name} GROUP BY {key}")  # noqa: S608


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    filled: Path = tmp_path_factory.mktemp("tenants") / "every"
    filled.mkdir()
    AskedViews(f"sqlite:///{filled}/runs.db", _RUNS, of=_RUNS).close()
    alone: dict[str, AskedViews] = {}
    for number, tenant in enumerate(TENANTS):
        copied = copytree(filled, filled.with_name(str(number)), symlinks=True)
        alone[tenant] = AskedViews(f"sqlite:///{copied}/runs.db", 0, of=_RUNS)
        alone[tenant].generation.database.write(partial(_delete_others, tenant))
    every = AskedViews(f"sqlite:///{filled}/runs.db", 0, of=_RUNS)
    yield Stores(every, alone)
    for each in (every, *alone.values()):
        each.close()


_words = {
    "status": ["completed", "failed", "stopped", "waiting", "crashed"],
    "stop_reason": ["completed", "error", "steps_limit"],
    "agent": ["agent-1", "agent-2", "agent-7"],
    "model": ["small", "large"],
    "tenant": [*TENANTS, ""],
    "tool": ["refund", "search"],
    "effect": ["read", "unsafe"],
    "error_type": ["tool_error", "timeout"],
    "resolved_by": ["StepsLimit"],
    "signature": [f"{number:016x}" for number in range(24)],
    "stream": [f"agent:s-{number:06}" for number in range(50)],
    "root": [f"agent:s-{number:06}" for number in range(2, 400, 10)],
}
filters = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.sets(st.sampled_from(words), min_size=1, max_size=3) for name, words in _words.items()},
        "tags": st.sampled_from([{"plan": "free"}, {"plan": "pro"}, {"user": "u7"}]),
        "since": st.integers(0, 30).map(lambda days: _START + timedelta(days=days)),
        "until": st.integers(0, 30).map(lambda days: _START + timedelta(days=days)),
        "least": st.sampled_from([{"tokens": 1_000}, {"cost": 0.01}, {"retries": 1}]),
    },
)


async def _everything(asking: AskingRuns, given: dict[str, Any], order: str, by: list[Any]) -> list[object]:
    """Ask all that can be asked, to the end of each list."""
    assert {name for name in vars(AskingRuns) if not name.startswith("_")} == {"runs", "stats", "failures", "of"}
    found: list[object] = []
    after: str | None = None
    chosen = RunFilter(**given)
    while True:
        page: RunsPage = await asking.runs(chosen, order, limit=20, after=after)
        found += [page.rows, page.next, str(await page.count())]
        if (after := page.next) is None:
            break
    period = {name: given[name] for name in ("since", "until") if name in given}
    found.append((await asking.stats(**period, by=by)).to_dict())
    found.append((await asking.stats(**period, agent="agent-1")).to_dict())
    found.append(list(await asking.failures(**period)))
    return found


@pytest.mark.slow("fills six stores with hundreds of runs")
@examples(60)
@given(
    st.sampled_from(TENANTS),
    filters,
    st.sampled_from(list(RunOrder)),
    st.lists(st.sampled_from(sorted(GROUPS)), max_size=2),
)
def test_a_tenant_sees_its_own_runs_and_nothing_of_others(
    stores: Stores, tenant: str, given: dict[str, Any], order: RunOrder, by: list[Any]
) -> None:
    own = stores.every.asking().of(tenant)
    alone = stores.alone[tenant].asking()
    of_tenant = stores.every.run(_everything(own, given, order, by))
    assert of_tenant == stores.alone[tenant].run(_everything(alone, given, order, by))
