"""What a batch changes: what was said last of a row holds, as it is at the end; sums are added up with their totals."""

from typing import Any, cast

import pytest

from steptrail.infrastructure.views.database import Unfit
from steptrail.infrastructure.views.fitting import sums_to_add
from steptrail.projections.kernel.changes import Changes
from steptrail.projections.kernel.table import Column, ColumnKind, Row, Table
from tests.views.counting import NOTES

_KEY = ("agent:a", 1)
_TENANT, _DAY, _RUNS = (
    Column("tenant", ColumnKind.TEXT, "whose"),
    Column("day", ColumnKind.INTEGER, "the day"),
    Column("runs", ColumnKind.INTEGER, "how many"),
)
BY_DAY = Table(name="by_day", says="runs by day", columns=(_DAY, _RUNS), key=("day",), is_sums=True)
BY_TENANT = Table(
    name="by_tenant",
    says="runs by tenant and day",
    columns=(_TENANT, _DAY, _RUNS),
    key=("tenant", "day"),
    is_sums=True,
    totals=BY_DAY,
)


def _row(version: int) -> Row:
    return {"stream": "agent:a", "number": 1, "version": version}


def test_a_row_that_is_put_is_written_as_it_is_at_the_end() -> None:
    changes, row = Changes(), dict(_row(1))
    changes.put(NOTES, row)
    row["version"] = 2
    assert changes.rows == {NOTES: {_KEY: _row(2)}}


def test_what_was_said_last_of_a_row_holds() -> None:
    changes = Changes()
    changes.put(NOTES, _row(1))
    changes.put(NOTES, _row(2))
    assert changes.rows[NOTES] == {_KEY: _row(2)}
    changes.drop(NOTES, _KEY)
    assert changes.rows[NOTES] == {_KEY: None}
    changes.put(NOTES, _row(3))
    assert changes.rows[NOTES] == {_KEY: _row(3)}


def test_what_is_added_to_a_table_is_added_to_its_totals() -> None:
    changes = Changes()
    for tenant, day, runs in (("a", 1, 2), ("b", 1, 3), ("a", 2, 5), ("a", 1, 7)):
        changes.add(BY_TENANT, (tenant, day), {"runs": runs})
    changes.add(BY_DAY, (1,), {"runs": 100})
    by_tenant = {("a", 1): {"runs": 9}, ("b", 1): {"runs": 3}, ("a", 2): {"runs": 5}}
    for _ in range(2):  # to look changes nothing
        assert changes.sums == {BY_TENANT: by_tenant, BY_DAY: {(1,): {"runs": 112}, (2,): {"runs": 5}}}


@pytest.mark.parametrize("key", [("a",), "a1", ("a", 1, 2)])
def test_a_key_that_is_none_is_left_to_the_one_who_writes_it(key: object) -> None:
    changes = Changes()
    changes.add(BY_TENANT, cast(Any, key), {"runs": 1})
    with pytest.raises(Unfit, match="a key of by_tenant is a tuple of 2"):
        sums_to_add(BY_TENANT, changes.sums[BY_TENANT])
