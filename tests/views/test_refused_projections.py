"""Projections of a service that cannot be: refused when the trail is opened, before the store is touched."""

import re
from typing import Any

import pytest

from steptrail import Steptrail
from steptrail.errors import ConfigurationError
from steptrail.events import LogEntry, ToolExecutionCompleted
from steptrail.interfaces.python.views_of_runs import own_projections
from steptrail.projections import Column, ColumnKind, Projection, Table
from tests.views.test_own_projections import Refunds


def with_name(name: Any, table: str = "", **settings: Any) -> Projection[Any]:
    projection = Refunds()
    projection.name = name
    column = Column("a", ColumnKind.INTEGER, "x")
    projection.tables = [Table(name=table or f"v1_{name}", says="", columns=(column,), key=("a",))]
    for setting, value in settings.items():
        setattr(projection, setting, value)
    return projection


@pytest.mark.parametrize(
    "given",
    [
        [with_name("runs")],
        [with_name("executions")],
        [with_name("skipped")],
        [with_name("view_columns")],
        [with_name("refunds"), with_name("refunds")],
        [with_name('a"; DROP TABLE x; --')],
        [with_name("Größe")],
        [with_name("a" * 41)],
        [with_name(7)],
        [with_name("sqlite_refunds")],
        [with_name("pg_class")],
        [with_name("v1_executions")],
        [with_name("own", "own")],
        [with_name("own", "v2_own")],
        [with_name("own", "v1_other")],
        [with_name("own", "v1_own_Upper")],
        [with_name("own", version=0)],
        [with_name("own", version="1")],
        [with_name("own", on_error="ignore")],
        [with_name("own", prefixes="agent:")],
        [with_name("own", types=[ToolExecutionCompleted])],
        [Refunds],
        ["refunds"],
    ],
)
def test_names_that_cannot_be_are_refused_before_the_store_is_touched(given: Any) -> None:
    with pytest.raises(ConfigurationError):
        Steptrail.open("sqlite:////nowhere/at/all.db", projections=given)


async def awaited(*_: object) -> None:
    """Do nothing, whoever calls it and does not await it."""


def too_few(fold: int, entry: LogEntry) -> int:
    return fold


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"types": ("tool.done.v1",)}, "`types`: 'tool.done.v1': no event has this type, and nothing would ever come"),
        ({"prefixes": ("agent:", "agents")}, "no stream begins with 'agents'"),
        ({"apply": awaited}, "`apply` is a plain function, and nobody awaits one that is async"),
        ({"begin": awaited}, "`begin` is a plain function"),
        ({"end_batch": awaited}, "`end_batch` is a plain function"),
        ({"apply": too_few}, "`apply` is called with"),
    ],
)
def test_a_projection_that_would_count_nothing_and_not_say_so_is_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        Steptrail.open("sqlite:////nowhere/at/all.db", projections=[with_name("own", **settings)])


@pytest.mark.parametrize("prefixes", [(), ("",), ("agent:", "flow:"), ("agent:tea-",)])
def test_a_projection_may_read_all_streams_or_those_whose_ids_begin_so(prefixes: tuple[str, ...]) -> None:
    given = with_name("own", prefixes=prefixes, types=())
    assert [*own_projections([given])] == [given]
